"""How long an acceptor that joined during a segment does not know what became of that segment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.records.journal_record import JournalState, SegmentRecord
from qjm_compat.acceptor.programs.state_transitions import discarded, is_behind, started

JOINED = JournalState(joined_behind=21)


def test_an_acceptor_that_was_there_from_the_beginning_knows_of_everything() -> None:
    assert not is_behind(JournalState(), [])


@pytest.mark.parametrize("starts", [[], [1, 11], [31], [1, 11, 31, 41]])
def test_neither_earlier_nor_later_segments_tell_of_it(starts: list[int]) -> None:
    assert is_behind(JOINED, starts)


def test_the_segment_itself_does_finalized_or_sealed() -> None:
    assert not is_behind(JOINED, [21])
    segment = SegmentRecord(21, ledger_id=7, layout_version=-63, writer_epoch=2)
    assert is_behind(replace(JOINED, segments=(segment,)), [])
    assert not is_behind(replace(JOINED, segments=(replace(segment, end_txid=25),)), [])


def test_a_purge_does_once_it_covers_all_before_a_later_segment() -> None:
    assert not is_behind(replace(JOINED, purged_below=31), [31])
    assert not is_behind(replace(JOINED, purged_below=35), [31])
    later = SegmentRecord(31, ledger_id=7, layout_version=-63, writer_epoch=2)
    assert not is_behind(replace(JOINED, purged_below=31, segments=(later,)), [])
    assert is_behind(replace(JOINED, purged_below=30), [31]), "it may end at 30, which is kept"
    assert is_behind(replace(JOINED, purged_below=31), [41]), "it may be the one that ends at 40"
    assert is_behind(replace(JOINED, purged_below=31), [])


@pytest.mark.parametrize(("start", "left"), [(31, 21), (22, 21), (21, 0), (15, 0)])
def test_starting_that_segment_lifts_it_and_starting_a_later_one_does_not(start: int, left: int) -> None:
    segment = SegmentRecord(start, ledger_id=7, layout_version=-63, writer_epoch=2)
    assert started(JOINED, segment, frozenset()).joined_behind == left


@pytest.mark.parametrize(("start", "left"), [(31, 21), (22, 21), (21, 0), (1, 0)])
def test_a_discard_of_that_segment_lifts_it(start: int, left: int) -> None:
    assert discarded(JOINED, start, 0).joined_behind == left
