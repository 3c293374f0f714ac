"""The index finds every frame that may hold an entry, each once, before, during and after a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.errors import IndexUnusable
from bookie.index.frame_locations import SPAN_CLASSES, FrameLocation, RecentLocations, reach, span_class
from bookie.index.index import Index
from bookie.index.local_ledger_state import Fence, LocalLedgerState
from bookie.wire.messages import VERIFIER_BYTES
from metadata.records.ledger_record import IDENTITY_BYTES
from tests.bookie.entries import lac_of

ENTRY_MAX = 2**63 - 1
ALL = 10_000


def place(first: int, last: int, position: int = 64) -> FrameLocation:
    return FrameLocation(first, position, last, min(last - first + 1, 2**20), 128)


@contextmanager
def new_index() -> Iterator[Index]:
    with TemporaryDirectory() as directory, closing(Index(Path(directory))) as index:
        yield index


def held(index: Index, ledger_id: int, first: int, last: int, limit: int = ALL) -> list[FrameLocation]:
    """A look-up as a reader does it."""
    recent = index.recent_holding(ledger_id, first, last)
    return index.holding(ledger_id, first, last, recent, limit)


def checkpoint(index: Index, position: int = 0) -> None:
    index.begin_checkpoint()
    index.commit_checkpoint(position, [])
    index.end_checkpoint()


spans = st.sampled_from([0, 0, 0, 1, 2, 15, 16, 17, 255, 256, 4096, 70_000, 2**40])
firsts = st.integers(0, 300) | st.integers(0, 2**41) | st.just(ENTRY_MAX)
ranges = st.tuples(firsts, spans).map(lambda pair: (pair[0], min(pair[0] + pair[1], ENTRY_MAX)))
places_of_ledgers = st.lists(st.tuples(st.integers(1, 3), ranges), max_size=30)


@settings(max_examples=150, deadline=None)
@given(places_of_ledgers, st.lists(ranges, min_size=1, max_size=5), st.integers(0, 30), st.integers(0, 30))
def test_a_lookup_gives_the_frames_whose_span_meets_the_range_each_once_in_order(
    frames: list[tuple[int, tuple[int, int]]],
    asked: list[tuple[int, int]],
    stored: int,
    moving: int,
) -> None:
    """Duplicates, mixed spans and gaps; some frames in LMDB, some on their way there, some recent."""
    with new_index() as index:
        known = [(ledger, place(*span, 64 + 128 * n)) for n, (ledger, span) in enumerate(frames)]
        for n, (ledger, one) in enumerate(known):
            if n == stored:
                checkpoint(index)
            if n == stored + moving:
                index.begin_checkpoint()
            index.add(ledger, one)
        for first, last in asked:
            for ledger in (1, 2, 3):
                expected = sorted(
                    p
                    for owner, p in known
                    if owner == ledger and p.first_entry <= last and p.last_entry >= first
                )
                assert held(index, ledger, first, last) == expected
                assert held(index, ledger, first, last, limit=2) == expected[:2]


def test_a_frame_is_neither_hidden_nor_doubled_at_any_moment_of_a_checkpoint() -> None:
    with new_index() as index:
        expected = [place(0, 9, 64), place(10, 10, 192), place(10, 10, 320), place(11, 40, 448)]
        for one in expected[:3]:
            index.add(7, one)
        early = index.recent_holding(7, 0, 100)
        index.begin_checkpoint()
        index.add(7, expected[3])
        during = index.recent_holding(7, 0, 100)
        assert index.holding(7, 0, 100, early, ALL) == expected[:3]
        assert index.holding(7, 0, 100, during, ALL) == expected
        index.commit_checkpoint(500, [])
        for recent in (during, index.recent_holding(7, 0, 100)):
            assert index.holding(7, 0, 100, recent, ALL) == expected
        assert index.holding(7, 0, 100, early, ALL) == expected[:3]
        index.end_checkpoint()
        for recent in (during, index.recent_holding(7, 0, 100)):
            assert index.holding(7, 0, 100, recent, ALL) == expected
        assert index.recent_frames == 1


def test_a_checkpoint_given_up_leaves_every_frame_for_the_next_one() -> None:
    with new_index() as index:
        index.add(7, place(0, 0, 64))
        index.begin_checkpoint()
        index.add(7, place(1, 1, 192))
        index.abandon_checkpoint()
        assert held(index, 7, 0, 9) == [place(0, 0, 64), place(1, 1, 192)]
        assert index.recent_frames == 2
        checkpoint(index)
        assert held(index, 7, 0, 9) == [place(0, 0, 64), place(1, 1, 192)]
        assert index.recent_frames == 0


def test_a_checkpoint_given_up_after_its_commit_doubles_nothing() -> None:
    with new_index() as index:
        index.add(7, place(0, 0, 64))
        index.begin_checkpoint()
        index.commit_checkpoint(192, [])
        index.abandon_checkpoint()
        assert held(index, 7, 0, 9) == [place(0, 0, 64)]


def test_an_index_opened_again_knows_what_its_last_checkpoint_moved(tmp_path: Path) -> None:
    index = Index(tmp_path)
    assert index.checkpoint_position == 0
    fenced = LocalLedgerState(7, Fence.DURABLE, True, lac_of(4), b"v" * VERIFIER_BYTES)
    blank = LocalLedgerState(9, verifier=b"")
    index.add(7, place(0, 9, 64))
    index.begin_checkpoint()
    index.commit_checkpoint(192, [(7, fenced.encode()), (9, blank.encode())])
    index.end_checkpoint()
    index.add(7, place(10, 19, 192))
    index.close()

    index = Index(tmp_path)
    assert held(index, 7, 0, 100) == [place(0, 9, 64)]
    assert (index.checkpoint_position, index.recent_frames) == (192, 0)
    assert index.ledger_ids() == [7, 9]
    assert (index.ledger(7), index.ledger(9), index.ledger(8)) == (fenced, blank, None)
    index.close()


def test_many_frames_are_moved_at_once() -> None:
    with new_index() as index:
        everything = [place(n, n, 64 + 128 * n) for n in range(25_000)]
        for one in everything:
            index.add(1, one)
        checkpoint(index)
        assert held(index, 1, 0, ENTRY_MAX, limit=30_000) == everything
        assert held(index, 1, 12_345, 12_347) == everything[12_345:12_348]


def test_a_span_belongs_to_the_smallest_class_that_reaches_over_it() -> None:
    for span, expected in ((0, 0), (1, 1), (15, 1), (16, 2), (255, 2), (256, 3), (ENTRY_MAX, 16)):
        assert span_class(place(0, span)) == expected


def test_a_class_reaches_as_far_back_as_its_longest_frame_and_no_farther() -> None:
    for span in range(SPAN_CLASSES):
        longest = (1 << 4 * span) - 1
        assert span_class(place(0, longest)) == span
        for entry_id in (0, 1, 14, 15, 16, 300, 2**40, ENTRY_MAX):
            first = reach(span, entry_id)
            assert first + longest >= entry_id
            assert first == 0 or first - 1 + longest < entry_id


def test_a_lookup_walks_over_a_few_frames_however_long_the_ledger() -> None:
    recent, frames = RecentLocations(), [place(n, n, 64 + 128 * n) for n in range(1000)]
    for one in frames:
        recent.add(7, one)
    assert recent.holding(7, 900, 901) == frames[900:902]


states = st.builds(
    LocalLedgerState,
    st.just(5),
    st.sampled_from([Fence.NONE, Fence.DURABLE]),
    st.booleans(),
    st.none() | st.integers(-1, ENTRY_MAX).map(lac_of).filter(lambda lac: lac.length_bytes < 2**63),
    st.sampled_from([None, b"", b"v" * VERIFIER_BYTES]),
    st.booleans(),
    st.sampled_from([None, b"", b"i" * IDENTITY_BYTES]),
)


@given(states)
def test_a_ledgers_state_comes_back_as_it_was(state: LocalLedgerState) -> None:
    assert LocalLedgerState.decode(5, state.encode()) == state


def test_a_fence_that_is_not_on_disk_is_not_kept_as_a_fence() -> None:
    assert LocalLedgerState.decode(
        5, LocalLedgerState(5, Fence.PENDING, verifier=b"").encode()
    ) == LocalLedgerState(5, verifier=b"")


def test_a_state_nobody_can_read_is_named() -> None:
    row = LocalLedgerState(5, Fence.DURABLE, True, lac_of(3)).encode()
    for bad in (row[:-1], row + b"x", b"\x09" + row[1:]):
        with pytest.raises(ValueError, match="the state of ledger 5 cannot be read"):
            LocalLedgerState.decode(5, bad)


def test_the_last_add_confirmed_never_goes_back() -> None:
    state = LocalLedgerState(5)
    rose = [state.note_lac(lac) for lac in (lac_of(-1), lac_of(3), lac_of(2), lac_of(3), None, lac_of(4))]
    assert rose == [True, True, False, False, False, True]
    assert state.last_add_confirmed == lac_of(4)


def test_what_a_state_record_says_is_added_to_what_is_known() -> None:
    """R1: a copy that compaction made may be older than what came after it; nothing of it is taken back."""
    ours, others = b"v" * VERIFIER_BYTES, b"w" * VERIFIER_BYTES
    everything = LocalLedgerState(5, Fence.DURABLE, True, lac_of(4), ours)
    state = LocalLedgerState(5)
    state.absorb(everything)
    assert state == everything
    state.absorb(LocalLedgerState(5, Fence.NONE, False, lac_of(3), others))
    assert state == everything
    for limbo in (True, False):
        state.absorb(LocalLedgerState(5, limbo=limbo))
        assert state == LocalLedgerState(5, Fence.DURABLE, True, lac_of(4), ours, limbo)


@pytest.mark.parametrize("harm", ["first pages", "cut behind the meta pages", "cut inside them"])
def test_a_damaged_index_is_one_clear_error_and_not_a_dead_process(tmp_path: Path, harm: str) -> None:
    index = Index(tmp_path)
    for n in range(500):
        index.add(7, FrameLocation(n, n, n, 1, 80))
    index.begin_checkpoint()
    index.commit_checkpoint(500, [])
    index.end_checkpoint()
    index.close()
    file = tmp_path / "data.mdb"
    match harm:
        case "first pages":
            file.write_bytes(b"x" * 3 * 4096 + file.read_bytes()[3 * 4096 :])
        case "cut behind the meta pages":
            os.truncate(file, 3 * 4096)
        case _:
            os.truncate(file, 5000)
    with pytest.raises(IndexUnusable, match="rebuild it from the log"):
        Index(tmp_path)
