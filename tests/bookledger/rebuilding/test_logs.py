"""A log's chain is made again from its segments' ledgers."""

from __future__ import annotations

from dataclasses import replace

from bookledger.cluster.rebuilding.logs import EPOCHS_LEFT, RebuiltLog, forks_of, rebuilt_log
from metadata.records.ledger_record import SEGMENT, BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.logs import log_codec
from metadata.records.logs.log_ledgers import LOG, SegmentOf
from metadata.records.logs.log_record import PAGE_SEGMENTS, LogRecord, LogSettings
from metadata.records.logs.segment import Segment
from metadata.records.logs.shared_ledgers import Fork, Maker

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
BEGUN = LogRecord(A, "orders", LogSettings(Shape(1, 1, 1), roll_records=10), owner="team", created_ms=5)


def ledger(
    ledger_id: int, first: int, end: int | None, *, epoch: int = 1, log: LogRecord | None = BEGUN
) -> LedgerRecord:
    """That of a segment with these positions; open without an end."""
    said = {SEGMENT: SegmentOf(A if log is None else log.identity, first, epoch).encoded()}
    if log is not None:
        said[LOG] = log_codec.encode(replace(log, epoch=epoch).without_segments())
    made = LedgerRecord(
        ledger_id,
        Shape(1, 1, 1),
        (Fragment(0, (BookieRef("b1", "i1"),)),),
        custom_metadata=said,
        created_ms=ledger_id,
    )
    if end is None:
        return made
    closed_ms = ledger_id + 1
    return replace(
        made,
        state=LedgerState.CLOSED,
        last_entry=end - first - 1,
        length_bytes=end - first,
        closed_ms=closed_ms,
    )


def positions(rebuilt: RebuiltLog) -> list[tuple[int, int, int | None]]:
    """Of each segment the ledger, the first position and the end: those in pages first."""
    segments = [*(one for page in rebuilt.pages for one in page), *rebuilt.record.segments]
    return [(one.ledger_id, one.first_position, one.end_position) for one in segments]


def test_the_chain_is_as_it_was_and_the_epoch_above_all_that_are_known() -> None:
    rebuilt = rebuilt_log([ledger(3, 20, None, epoch=2), ledger(1, 0, 10), ledger(2, 10, 20)])
    assert positions(rebuilt) == [(1, 0, 10), (2, 10, 20), (3, 20, None)]
    assert rebuilt.record.epoch == 2 + EPOCHS_LEFT
    assert (rebuilt.record.name, rebuilt.record.owner) == ("orders", "team")
    assert rebuilt.record.settings == BEGUN.settings and rebuilt.doubts == ()
    assert rebuilt.record.segments[0] == Segment(1, 0, 1, 1000, 10, 2999, 10)


def test_of_an_older_program_the_name_is_not_known() -> None:
    record = rebuilt_log([ledger(1, 0, 10, log=None)]).record
    assert record.name == f"log-{A.hex()}" and record.settings.shape == Shape(1, 1, 1)


def test_a_ledger_that_a_former_writer_began_in_vain_is_not_of_the_chain_and_is_deleted_some_day() -> None:
    """While it rolled another one took over: that one's segment begins at the same position, or before."""
    for vain in (ledger(3, 20, None), ledger(3, 20, 25), ledger(3, 22, None)):
        rebuilt = rebuilt_log([ledger(2, 10, 20), vain, ledger(4, 20, None, epoch=2)])
        assert positions(rebuilt) == [(2, 10, 20), (4, 20, None)]
        assert rebuilt.record.obsolete == (3,)


def test_a_ledger_that_a_writer_made_ahead_and_dropped_is_not_of_the_chain() -> None:
    """Its tail failed before the position where the next segment was to begin: that one begins earlier."""
    for dropped in (ledger(3, 20, None), ledger(3, 20, 25)):
        rebuilt = rebuilt_log([ledger(2, 10, 17), dropped, ledger(4, 17, 30), ledger(5, 30, None)])
        assert positions(rebuilt) == [(2, 10, 17), (4, 17, 30), (5, 30, None)]
        assert rebuilt.record.obsolete == (3,) and rebuilt.doubts == ()


def test_segments_that_hold_nothing_leave_the_chain() -> None:
    rebuilt = rebuilt_log([ledger(1, 0, 10), ledger(2, 10, 10), ledger(3, 10, None, epoch=2)])
    assert positions(rebuilt) == [(1, 0, 10), (3, 10, None)]


def test_what_was_truncated_does_not_come_back_with_ledgers_that_were_not_collected() -> None:
    truncated = replace(BEGUN, first_position=15, paged_through=15)
    rebuilt = rebuilt_log([ledger(1, 0, 10), ledger(2, 10, 20), ledger(3, 20, None, log=truncated)])
    assert positions(rebuilt) == [(2, 10, 20), (3, 20, None)]
    assert rebuilt.record.first_position == 15 and rebuilt.record.obsolete == (1,)
    rebuilt = rebuilt_log([ledger(1, 0, 10, log=truncated)])
    assert positions(rebuilt) == [] and rebuilt.record.end_position == 15


def test_a_segment_that_nobody_noted_leaves_a_gap_and_what_is_before_it() -> None:
    rebuilt = rebuilt_log([ledger(1, 0, 10), ledger(3, 20, None)])
    assert positions(rebuilt) == [(1, 0, 10), (3, 20, None)]
    assert rebuilt.record.paged_through == 20 and rebuilt.record.first_position == 0
    assert rebuilt.doubts == ("no bookie noted the segments with positions 10 to 19",)


def test_a_segment_whose_end_nobody_was_told_ends_where_the_next_begins() -> None:
    rebuilt = rebuilt_log([ledger(1, 0, None), ledger(2, 10, None)])
    assert positions(rebuilt) == [(1, 0, 10), (2, 10, None)]
    assert rebuilt.doubts == ("ledger 1 must be recovered: it ends before position 10",)
    assert rebuilt.record.segments[0].ended_us == 2000, "when the next one was made"


def test_a_segment_ends_no_earlier_than_its_ledger_was_closed() -> None:
    """Its last record may be of that very millisecond, and a time that it ends before is looked for behind it."""
    (segment,) = rebuilt_log([ledger(1, 0, 10)]).record.segments
    assert segment.ended_us == 2999


def test_a_long_chain_is_in_pages_as_ever() -> None:
    count = 2 * PAGE_SEGMENTS + 3
    rebuilt = rebuilt_log([ledger(n + 1, 10 * n, 10 * n + 10) for n in range(count)])
    assert positions(rebuilt) == [(n + 1, 10 * n, 10 * n + 10) for n in range(count)]
    assert [len(page) for page in rebuilt.pages] == [PAGE_SEGMENTS]
    assert rebuilt.record.paged_through == 10 * PAGE_SEGMENTS


def test_a_fork_has_what_it_shares_again_and_each_log_names_its_forks() -> None:
    """Epochs are each log's own, and what a fork shares ends where the fork began."""
    orders = [ledger(1, 0, 10, epoch=7), ledger(2, 10, 20, epoch=8), ledger(3, 20, None, epoch=9)]
    fork = replace(BEGUN, identity=B, name="test", makers=(Maker(A, 14),))
    third = replace(
        BEGUN,
        identity=C,
        name="third",
        first_position=5,
        paged_through=5,
        makers=(Maker(A, 14), Maker(B, 17)),
    )
    of_logs = {A: orders, B: [ledger(4, 14, 20, log=fork)], C: [ledger(5, 17, None, log=third)]}
    rebuilt = {identity: rebuilt_log(ledgers, others=of_logs) for identity, ledgers in of_logs.items()}
    assert positions(rebuilt[A]) == [(1, 0, 10), (2, 10, 20), (3, 20, None)]
    assert positions(rebuilt[B]) == [(1, 0, 10), (2, 10, 14), (4, 14, 20)]
    assert positions(rebuilt[C]) == [(1, 0, 10), (2, 10, 14), (4, 14, 17), (5, 17, None)]
    assert all(one.doubts == () and one.record.obsolete == () for one in rebuilt.values())
    assert forks_of(one.record for one in rebuilt.values()) == {
        A: (Fork(B, 0, 14), Fork(C, 5, 14)),
        B: (Fork(C, 14, 17),),
    }


def test_a_fork_whose_shared_ledgers_are_gone_says_what_is_missing() -> None:
    fork = replace(BEGUN, identity=B, makers=(Maker(A, 14),))
    rebuilt = rebuilt_log([ledger(4, 14, 20, log=fork)], others={A: [ledger(1, 0, 10)]})
    assert rebuilt.doubts == ("no bookie noted the segments with positions 10 to 13",)


def test_an_open_ledger_is_shared_up_to_where_the_fork_begins() -> None:
    fork = replace(BEGUN, identity=B, makers=(Maker(A, 14),))
    rebuilt = rebuilt_log([ledger(4, 14, None, log=fork)], others={A: [ledger(1, 0, None)]})
    assert positions(rebuilt) == [(1, 0, 14), (4, 14, None)] and rebuilt.doubts == ()
