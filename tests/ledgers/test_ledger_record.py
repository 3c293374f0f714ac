"""A ledger's record: the only ways it may change, and what it refuses to be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata import keys
from metadata.errors import BadRecord
from metadata.records.ledger_codec import decode, encode
from metadata.records.ledger_record import (
    FRAGMENTS_MAX,
    AcceptedLoss,
    BookieRef,
    DigestType,
    Fragment,
    Lacking,
    LedgerRecord,
    LedgerState,
    Shape,
    next_fragments,
)

A, B, C, D = (BookieRef(name, f"i-{name}") for name in "abcd")
OPEN = LedgerRecord(5, Shape(2, 2, 1), (Fragment(0, (A, B)), Fragment(10, (A, C), 100)))


def test_a_new_fragment_follows_the_last_one() -> None:
    """W4"""
    new = Fragment(12, (A, D), 120)
    assert OPEN.changed_ensemble(new) == replace(OPEN, fragments=(*OPEN.fragments, new))


def test_a_new_fragment_takes_the_place_of_one_that_begins_at_the_same_entry() -> None:
    """W4"""
    new = Fragment(10, (A, D), 100)
    assert OPEN.changed_ensemble(new).fragments == (OPEN.fragments[0], new)


def test_a_fragment_never_begins_before_the_last_one() -> None:
    """W4, F2"""
    with pytest.raises(AssertionError):
        next_fragments(OPEN.fragments, Fragment(9, (A, D)))


def test_recovery_begins_from_an_open_ledger_only() -> None:
    """R2"""
    recovering = OPEN.in_recovery()
    assert recovering == replace(OPEN, state=LedgerState.IN_RECOVERY)
    for record in (recovering, OPEN.closed(11, 110)):
        with pytest.raises(AssertionError):
            record.in_recovery()


@pytest.mark.parametrize("before", [OPEN, OPEN.in_recovery()], ids=["open", "in recovery"])
def test_a_close_states_the_end_and_the_length(before: LedgerRecord) -> None:
    """C1"""
    closed = before.closed(11, 110)
    assert (closed.state, closed.last_entry, closed.length_bytes) == (LedgerState.CLOSED, 11, 110)
    assert closed.is_closed and not before.is_closed
    assert closed.fragments == before.fragments


@pytest.mark.parametrize(("last", "kept"), [(11, 2), (10, 2), (9, 1), (0, 1), (-1, 1)])
def test_fragments_that_begin_after_the_end_are_dropped(last: int, kept: int) -> None:
    """C1: the first one always stays."""
    assert OPEN.closed(last, 0).fragments == OPEN.fragments[:kept]


def test_a_closed_ledger_is_never_closed_again() -> None:
    """C1, I7"""
    with pytest.raises(AssertionError):
        OPEN.closed(11, 110).closed(12, 120)


def test_a_reserved_ledger_is_claimed_once() -> None:
    reserved = replace(OPEN, reserved=True)
    assert reserved.claimed() == OPEN
    for record in (OPEN, reserved.in_recovery()):
        with pytest.raises(AssertionError):
            record.claimed()


FORMER = BookieRef("d", "before")


def test_a_closed_ledgers_entries_may_change_hands() -> None:
    """W7: `d` takes the places of `a`, in the same positions, and nothing else is another."""
    closed = replace(OPEN, fragments=(Fragment(0, (A, B)), Fragment(10, (C, A), 100))).closed(11, 110)
    moved = closed.moved(0, A, D).moved(10, A, D)
    assert moved == replace(closed, fragments=(Fragment(0, (D, B)), Fragment(10, (C, D), 100)))


@pytest.mark.parametrize(
    ("ensemble", "old", "moved"),
    [
        ((A, B), A, (D, B)),
        ((FORMER, B), FORMER, (D, B)),
        ((C, B), A, None),
        ((A, D), A, None),
        ((A, FORMER), A, None),
        ((BookieRef("a", "before"), B), A, None),
    ],
    ids=["another's", "its own former self's", "nobody's", "its own", "beside a former self", "incarnation"],
)
def test_nobody_gets_a_place_beside_one_of_its_own_name(
    ensemble: tuple[BookieRef, ...], old: BookieRef, moved: tuple[BookieRef, ...] | None
) -> None:
    """I5, W7"""
    fragments = Fragment(0, (A, B)), Fragment(5, ensemble)
    assert fragments[1].admits(D, in_place_of=old) == (moved is not None)
    if moved is not None:
        record = LedgerRecord(5, Shape(2, 2, 1), fragments).closed(11, 110)
        assert record.moved(5, old, D).fragments[1] == Fragment(5, moved)


@pytest.mark.parametrize("record", [OPEN, OPEN.in_recovery()], ids=["open", "in recovery"])
def test_only_what_nobody_writes_any_more_changes_hands(record: LedgerRecord) -> None:
    """A writer or a recovery would go on with an ensemble that no longer stands."""
    assert record.moved(0, A, D).fragments == (Fragment(0, (D, B)), record.fragments[1])
    with pytest.raises(AssertionError):
        record.moved(10, A, D)


def test_a_move_moves_something() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        OPEN.closed(11, 110).moved(0, D, A)


def test_what_nobody_writes_any_more_is_a_closed_ledger_of_its_own() -> None:
    part = OPEN.closed_part()
    assert part is not None and part.is_closed
    assert (part.fragments, part.last_entry, part.length_bytes) == (OPEN.fragments[:1], 9, 100)
    assert replace(OPEN, fragments=OPEN.fragments[:1]).closed_part() is None
    closed = OPEN.closed(11, 110)
    assert closed.closed_part() == closed


def test_what_a_copy_lacks_is_told_in_each_fragment_that_has_some_of_it() -> None:
    """W6"""
    told = OPEN.closed(19, 200).with_lacking(1, 8, 12).with_lacking(1, 15, 16)
    assert [f.lacking for f in told.fragments] == [(Lacking(1, 8, 9),), (Lacking(1, 10, 16),)]
    assert decode(keys.ledger(5), encode(told)) == told
    assert told.without_lacking(1, 8, 12).fragments[0].lacking == ()
    assert told.without_lacking(1, 8, 12).fragments[1].lacking == (Lacking(1, 10, 16),)
    assert told.whole_at(10, C).fragments[1].lacking == ()
    assert told.moved(0, B, D).fragments[0].lacking == ()


def test_an_entry_belongs_to_the_last_fragment_that_begins_before_it() -> None:
    assert [OPEN.fragment_of(entry_id).first_entry for entry_id in (0, 9, 10, 99)] == [0, 0, 10, 10]


BAD_FRAGMENTS = {
    "none": (),
    "not from the start": (Fragment(1, (A, B)),),
    "not increasing": (Fragment(0, (A, B)), Fragment(5, (A, C)), Fragment(5, (A, D))),
    "going back": (Fragment(0, (A, B)), Fragment(5, (A, C)), Fragment(4, (A, D))),
    "too few bookies": (Fragment(0, (A,)),),
    "too many bookies": (Fragment(0, (A, B, C)),),
    "one bookie twice": (Fragment(0, (A, A)),),
    "two incarnations of one bookie": (Fragment(0, (A, BookieRef("a", "another"))),),
    "too many": tuple(Fragment(n, (A, B)) for n in range(FRAGMENTS_MAX + 1)),
}


@pytest.mark.parametrize("fragments", BAD_FRAGMENTS.values(), ids=list(BAD_FRAGMENTS))
def test_fragments_that_cannot_be_are_refused(fragments: tuple[Fragment, ...]) -> None:
    """I5"""
    with pytest.raises(ValueError, match=r"fragment|ensemble"):
        LedgerRecord(5, Shape(2, 2, 1), fragments)


def test_as_many_fragments_as_the_limit_are_taken() -> None:
    fragments = tuple(Fragment(n, (A, B)) for n in range(FRAGMENTS_MAX))
    assert LedgerRecord(5, Shape(2, 2, 1), fragments).fragments == fragments


@pytest.mark.parametrize(
    ("state", "last_entry", "length"),
    [
        (LedgerState.OPEN, 4, 40),
        (LedgerState.IN_RECOVERY, 4, None),
        (LedgerState.CLOSED, None, None),
        (LedgerState.CLOSED, 4, None),
        (LedgerState.CLOSED, None, 40),
    ],
)
def test_an_end_belongs_to_a_closed_ledger_and_only_to_one(
    state: LedgerState, last_entry: int | None, length: int | None
) -> None:
    with pytest.raises(ValueError, match="closed ledger"):
        replace(OPEN, state=state, last_entry=last_entry, length_bytes=length)


refs = st.builds(BookieRef, st.text(min_size=1, max_size=5), st.text(max_size=5))


@st.composite
def records(draw: st.DrawFn) -> LedgerRecord:
    size = draw(st.integers(1, 4))
    writes = draw(st.integers(1, size))
    starts = [0, *sorted(draw(st.sets(st.integers(1, 2**60), max_size=4)))]
    ensembles = st.lists(refs, min_size=size, max_size=size, unique_by=lambda ref: ref.bookie_id)
    record = LedgerRecord(
        ledger_id=draw(st.integers(0, 2**62)),
        shape=Shape(size, writes, draw(st.integers(1, writes))),
        fragments=tuple(
            Fragment(first, tuple(draw(ensembles)), draw(st.integers(0, 2**62))) for first in starts
        ),
        digest_type=draw(st.sampled_from(DigestType)),
        custom_metadata=draw(st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3)),
        created_ms=draw(st.integers(0, 2**50)),
        nonce=draw(st.binary(max_size=16)),
        reserved=draw(st.booleans()),
    )
    state = draw(st.sampled_from(LedgerState))
    if state is LedgerState.OPEN:
        return record
    if state is LedgerState.IN_RECOVERY:
        return record.in_recovery()
    record = replace(record, closed_ms=draw(st.integers(0, 2**50)))
    return record.closed(draw(st.integers(-1, 2**61)), draw(st.integers(0, 2**62)))


@given(records())
def test_a_record_reads_back_as_it_was_stored(record: LedgerRecord) -> None:
    assert decode(keys.ledger(record.ledger_id), encode(record)) == record


@pytest.mark.parametrize("value", [b"", b"\x08\x02", b"\xff", b"not a record"])
def test_a_record_of_another_version_or_none_is_refused(value: bytes) -> None:
    with pytest.raises(BadRecord):
        decode(keys.ledger(5), value)


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


@pytest.mark.parametrize("milliseconds", [-1, 2**62])
def test_what_is_no_time_is_none(milliseconds: int) -> None:
    assert replace(closed_at_entry_5(), created_ms=milliseconds).created_at is None


def test_a_ledger_may_hold_what_was_appended_between_its_making_and_its_close() -> None:
    record = replace(closed_at_entry_5(), created_ms=10_000, closed_ms=20_000)
    assert record.may_hold(at(15), at(16))
    assert record.may_hold(at(20), None) and record.may_hold(None, at(10)) and record.may_hold(None, None)
    assert not record.may_hold(at(21), None)
    assert not record.may_hold(None, at(9))
    assert replace(record, closed_ms=0).may_hold(at(21), None), "nobody said when it was closed"
    assert replace(record, created_ms=0).may_hold(None, at(9))


def closed_at_entry_5() -> LedgerRecord:
    refs = (BookieRef("b1", "i1"), BookieRef("b2", "i2"))
    return LedgerRecord(7, Shape(2, 2, 1), (Fragment(0, refs),)).closed(5, 50)


LOSS = AcceptedLoss(1_700_000_000_000, "root@host", 12, missing=(A, B), to_fence=(A,))
ACCEPTED = replace(
    OPEN.closed(11, 110), identity=b"i" * 16, custom_metadata={"owner": b"team-a"}, accepted_loss=LOSS
)


def test_by_whose_word_a_ledger_was_closed_stays_in_its_record() -> None:
    found = decode(keys.ledger(5), encode(ACCEPTED))
    assert found == ACCEPTED
    assert isinstance(found, LedgerRecord) and found.accepted_loss is not None
    assert found.accepted_loss.at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert found.moved(10, C, D).accepted_loss == LOSS


def test_a_loss_is_accepted_by_closing_only() -> None:
    with pytest.raises(ValueError, match="only a closed ledger can have an accepted loss"):
        replace(OPEN, accepted_loss=LOSS)


def test_a_bookie_that_has_fenced_the_ledger_since_is_to_do_so_no_more() -> None:
    fenced = ACCEPTED.fenced_by(A)
    assert fenced.accepted_loss == replace(LOSS, to_fence=())
    assert fenced.fenced_by(B) == fenced
