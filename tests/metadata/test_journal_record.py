"""The records of a journal's acceptor say exactly what was put into them, or that they are damaged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.errors import BadRecord
from metadata.records import records_pb2 as pb
from metadata.records.journal_record import (
    AcceptedRecovery,
    Dropped,
    FinalizedSegment,
    JournalState,
    JournalStorage,
    SegmentRecord,
    decode_finalized,
    decode_state,
    encode_finalized,
    encode_state,
)

KEY = "journals/ns1/a/state"

numbers = st.integers(0, 2**63 - 1)
epochs = st.integers(0, 2**62)
layouts = st.integers(-(2**31), 2**31 - 1)
storages = st.builds(JournalStorage, layouts, st.integers(0, 2**31 - 1), st.text(max_size=20), numbers)
segments = st.builds(
    SegmentRecord, numbers, numbers, layouts, epochs, st.none() | numbers, finalized=st.booleans()
)
plain_states = st.builds(
    JournalState,
    storage=st.none() | storages,
    last_promised_epoch=epochs,
    last_writer_epoch=epochs,
    committed_txid=st.none() | numbers,
    segments=st.lists(segments, max_size=3).map(tuple),
    accepted=st.lists(st.builds(AcceptedRecovery, numbers, numbers, st.booleans(), epochs), max_size=3).map(
        tuple
    ),
    last_finalized_start=numbers,
    purged_below=numbers,
    generation=epochs,
    dropped=st.lists(st.builds(Dropped, epochs, epochs, numbers), max_size=3).map(tuple),
    replaced_ledgers=st.lists(numbers, max_size=3).map(tuple),
    owner=st.binary(max_size=16),
    joined_behind=numbers,
    epochs_above=epochs,
    nonce=st.binary(max_size=16),
)
states = st.builds(
    lambda state, previous: replace(state, previous=previous), plain_states, st.none() | plain_states
)


@given(states)
def test_a_state_comes_back_as_it_was_with_the_state_before_an_upgrade(state: JournalState) -> None:
    found = decode_state(KEY, encode_state(state))
    assert found == state
    assert found.nonce == state.nonce
    assert encode_state(found) == encode_state(state)


def test_nothing_is_not_the_same_as_zero() -> None:
    for state in (
        JournalState(committed_txid=None),
        JournalState(committed_txid=0),
        JournalState(segments=(SegmentRecord(1, 2, -63, 4),)),
        JournalState(storage=None),
        JournalState(storage=JournalStorage(0, 0, "")),
        JournalState(previous=JournalState()),
    ):
        assert decode_state(KEY, encode_state(state)) == state


@given(
    st.integers(1, 2**62), st.integers(0, 2**62 - 1), numbers, layouts, epochs, epochs, st.binary(max_size=16)
)
def test_a_finalized_segment_comes_back_as_it_was(
    start: int, more: int, ledger: int, layout: int, writer: int, generation: int, nonce: bytes
) -> None:
    segment = FinalizedSegment(start, start + more, ledger, layout, writer, generation)
    assert decode_finalized(KEY, encode_finalized(segment, nonce)) == segment


@given(plain_states, st.data())
def test_a_state_that_was_cut_short_is_never_taken_for_another(
    state: JournalState, data: st.DataObject
) -> None:
    whole = encode_state(state)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        found = decode_state(KEY, cut)
    except BadRecord:
        return
    assert encode_state(found) == cut  # a whole number of fields is left: what is there is right


@pytest.mark.parametrize("value", [b"", b"\xff", b"hello", pb.Journal(format_version=2).SerializeToString()])
def test_what_is_no_state_of_this_version_is_a_bad_record(value: bytes) -> None:
    with pytest.raises(BadRecord, match="journals/ns1/a/state"):
        decode_state(KEY, value)


def test_a_previous_state_of_another_version_is_a_bad_record() -> None:
    message = pb.Journal.FromString(encode_state(JournalState(previous=JournalState())))
    message.previous.format_version = 9
    with pytest.raises(BadRecord, match="format version 9; this program supports 1"):
        decode_state(KEY, message.SerializeToString())


@pytest.mark.parametrize(("start", "end"), [(0, 5), (5, 4), (0, 0), (-3, 5)])
def test_a_segment_that_cannot_be_is_a_bad_record(start: int, end: int) -> None:
    value = encode_finalized(FinalizedSegment(start, end, 1, -63, 1, 0), b"")
    with pytest.raises(BadRecord, match=f"a segment cannot run from txid {start} to {end}"):
        decode_finalized(KEY, value)


@pytest.mark.parametrize("value", [b"", b"\xff", pb.FinalizedSegment(format_version=2).SerializeToString()])
def test_what_is_no_segment_of_this_version_is_a_bad_record(value: bytes) -> None:
    with pytest.raises(BadRecord):
        decode_finalized(KEY, value)


def segment(start: int, end: int, generation: int = 0) -> FinalizedSegment:
    return FinalizedSegment(start, end, 1, -63, 1, generation)


def test_a_segment_belongs_to_the_journal_unless_it_was_purged_or_dropped_with_its_generation() -> None:
    state = JournalState(purged_below=5, dropped=(Dropped(1, 2, 10),))
    assert state.shows(segment(1, 5))
    assert not state.shows(segment(1, 4))
    assert state.shows(segment(9, 12, 1))
    assert not state.shows(segment(10, 12, 1))
    assert not state.shows(segment(10, 12, 2))
    assert state.shows(segment(10, 12, 0))
    assert state.shows(segment(10, 12, 3))


def test_the_finalized_segments_are_those_with_a_record_and_those_the_state_has_finalized_so_far() -> None:
    state = JournalState(
        segments=(
            SegmentRecord(31, 1, -63, 1),
            SegmentRecord(21, 1, -63, 1, 30),
            SegmentRecord(11, 1, -63, 1, 20, finalized=True),
        ),
        purged_below=3,
        generation=4,
    )
    found = state.finalized([segment(5, 10), segment(3, 4), segment(1, 2)])
    assert list(found.items()) == [(3, segment(3, 4)), (5, segment(5, 10)), (11, segment(11, 20, 4))]


def test_a_segment_is_needed_while_the_journal_or_a_rollback_shows_it() -> None:
    purged = JournalState(purged_below=100)
    assert not purged.needs(segment(1, 4))
    assert replace(purged, previous=JournalState()).needs(segment(1, 4))
    assert not replace(purged, previous=JournalState(purged_below=5)).needs(segment(1, 4))
    later = replace(segment(1, 4), generation=1)  # since the upgrade: a rollback drops it
    assert not replace(purged, previous=JournalState()).needs(later)
    assert replace(purged, previous=JournalState(generation=1)).needs(later)
