"""What an import decides before it writes anything."""

from __future__ import annotations

import pytest

from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.files.names import SegmentName, finalized_name
from qjm_compat.transfer.journal_import import Held, ImportSource, check_gaps, plan


def source(first: int, last: int) -> ImportSource:
    return ImportSource(SegmentName(finalized_name(first, last), first, last), last)


FILES = [source(1, 10), source(11, 20), source(21, 30)]


def begins(files: list[ImportSource], held: list[Held], *, allow_gaps: bool = False) -> list[int | None]:
    return [step.from_txid for step in plan(files, held, allow_gaps=allow_gaps)]


def test_an_empty_journal_gets_everything_wherever_it_begins() -> None:
    assert begins(FILES, []) == [1, 11, 21]
    assert begins(FILES[1:], []) == [11, 21]


def test_what_is_there_is_not_written_again() -> None:
    assert begins(FILES, [Held(1, 10), Held(11, 20)]) == [None, None, 21]


def test_a_segment_that_is_there_in_part_goes_on_behind_it() -> None:
    assert begins(FILES, [Held(1, 10), Held(11, 14)]) == [None, 15, 21]
    assert begins(FILES, [Held(1, 10), Held(11, 14), Held(15, 17)]) == [None, 18, 21]
    assert begins(FILES, [Held(1, 10), Held(11, 14), Held(15, 20)]) == [None, None, 21]


@pytest.mark.parametrize(
    "held",
    [
        [Held(1, 11)],
        [Held(1, 15)],
        [Held(5, 10)],
        [Held(1, 4), Held(6, 10)],
        [Held(1, 9), Held(11, 20)],
        [Held(1, 30)],
    ],
)
def test_what_is_there_between_other_ends_is_refused(held: list[Held]) -> None:
    with pytest.raises(TransferRefused, match="does not end at the same txid as a segment of the journal"):
        plan(FILES, held, allow_gaps=True)


def test_edits_older_than_all_that_is_there_are_refused() -> None:
    with pytest.raises(TransferRefused, match="contains edits before the journal's end"):
        plan(FILES, [Held(11, 20), Held(21, 30)], allow_gaps=True)


def test_a_gap_behind_what_is_there_is_refused_unless_it_is_allowed() -> None:
    with pytest.raises(TransferRefused, match="txids 6 to 10 are missing"):
        plan(FILES[1:], [Held(1, 5)], allow_gaps=False)
    assert begins(FILES[1:], [Held(1, 5)], allow_gaps=True) == [11, 21]


def test_a_gap_between_files_is_told_with_both_their_names() -> None:
    check_gaps(FILES)
    with pytest.raises(TransferRefused, match=r"txids 11 to 20 are missing between .*10 and edits_0+21-0+30"):
        check_gaps([FILES[0], FILES[2]])
