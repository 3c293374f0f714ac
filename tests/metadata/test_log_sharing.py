"""What a log's record says of the forks that have its ledgers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.records.ledger_record import LedgerRecord, LedgerState
from metadata.records.logs import log_codec
from metadata.records.logs.log_ledgers import SegmentOf, is_needed
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.segment import Segment
from metadata.records.logs.shared_ledgers import FORKS_MAX, MAKERS_MAX, Fork, Maker, makers_before
from tests.spark.made import closed

LOG, FORK, OTHER = b"l" * 16, b"f" * 16, b"o" * 16


def log(first_position: int = 0, *ends: int) -> LogRecord:
    segments, start = [], 0
    for n, end in enumerate(ends):
        segments.append(Segment(n + 1, start, 1, 0, end, 0, 100))
        start = end
    return LogRecord(LOG, "orders", segments=tuple(segments), epoch=1).truncated(first_position)


def ledger(number: int, entries: int) -> LedgerRecord:
    return closed(number, entries, 100)


@given(
    st.lists(st.integers(1, 40), unique=True, max_size=4).map(sorted), st.integers(0, 50), st.integers(0, 50)
)
def test_each_position_of_a_fork_is_of_the_log_that_made_its_ledger(
    stops: list[int], start: int, length: int
) -> None:
    of = replace(log(), makers=tuple(Maker(bytes([n]) * 16, stop) for n, stop in enumerate(stops)))
    stop = start + length
    fork = replace(log(), identity=FORK, makers=makers_before(of.makers, of.identity, start, stop))
    for position in range(start, stop):
        assert fork.maker_of(position) == of.maker_of(position)
    assert fork.maker_of(stop) == FORK


@given(st.integers(0, 20), st.integers(1, 20), st.integers(0, 40), st.none() | st.integers(0, 20))
def test_a_fork_needs_a_ledger_that_has_any_of_its_positions(
    start: int, length: int, first: int, entries: int | None
) -> None:
    fork = Fork(FORK, start, start + length)
    positions = range(first, 100 if entries is None else first + entries)
    needed = any(fork.start <= n < fork.stop for n in positions)
    named = log().with_fork(fork)
    assert named.is_forked(first, None if entries is None else first + entries) == needed


def test_a_ledger_is_needed_by_the_log_or_by_a_fork_until_both_have_given_it_up() -> None:
    said = SegmentOf(LOG, 0, 1)
    record = log(0, 10, 20).with_fork(Fork(FORK, 0, 15))
    assert is_needed(record, ledger(1, 10), said, record.segments)
    truncated = record.truncated(10)
    assert truncated.obsolete == (1,) and is_needed(truncated, ledger(1, 10), said, truncated.segments)
    for released in (truncated.released(FORK, 10), truncated.released(FORK, 2**63 - 1)):
        assert not is_needed(released, ledger(1, 10), said, released.segments)
    assert is_needed(record.released(FORK, 10), ledger(1, 10), said, record.segments)
    gone = replace(truncated, deleted=True)
    assert is_needed(gone, ledger(2, 10), SegmentOf(LOG, 10, 1), ())
    assert not is_needed(gone.released(FORK, 15), ledger(2, 10), SegmentOf(LOG, 10, 1), ())
    assert not is_needed(gone, ledger(3, 10), SegmentOf(LOG, 20, 1), ()), "behind the fork"
    still_open = replace(ledger(2, 10), state=LedgerState.OPEN, last_entry=None, length_bytes=None)
    assert is_needed(gone, still_open, SegmentOf(LOG, 10, 1), ())
    assert not is_needed(gone, ledger(4, 0), SegmentOf(LOG, 10, 1), ()), "nothing is in it"


def test_what_a_fork_needs_only_becomes_less() -> None:
    record = log().with_fork(Fork(FORK, 5, 15)).with_fork(Fork(OTHER, 0, 3))
    assert record.released(FORK, 3) == record.released(b"n" * 16, 9) == record
    assert record.released(FORK, 9).forks == (Fork(FORK, 9, 15), Fork(OTHER, 0, 3))
    assert record.released(FORK, 15).forks == (Fork(OTHER, 0, 3),)


def test_a_record_with_forks_is_read_as_it_was_written() -> None:
    record = replace(
        log(0, 10).with_fork(Fork(FORK, 2, 7)),
        makers=(Maker(OTHER, 3), Maker(FORK, 5)),
        forking=True,
    )
    assert log_codec.decode("logs/x", log_codec.encode(record)) == record
    said = record.without_segments()
    assert (said.makers, said.forks) == (record.makers, ())


def test_there_are_bounds() -> None:
    record = log()
    for n in range(FORKS_MAX):
        record = record.with_fork(Fork(n.to_bytes(16), 0, 1))
    with pytest.raises(ValueError, match=f"at most {FORKS_MAX} forks"):
        record.with_fork(Fork(FORK, 0, 1))
    for makers in ([5, 5], [0], range(1, MAKERS_MAX + 2)):
        with pytest.raises(ValueError, match="ledgers of at most 16 other logs"):
            replace(log(), makers=tuple(Maker(OTHER, stop) for stop in makers))
    with pytest.raises(ValueError, match="a fork cannot need positions 5 to 4"):
        Fork(FORK, 5, 5)
