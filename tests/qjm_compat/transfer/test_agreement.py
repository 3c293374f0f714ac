"""What copies of a journal may look like beside each other, and what not."""

from __future__ import annotations

from dataclasses import replace

from qjm_compat.transfer.checking.agreement import check_agreement
from qjm_compat.transfer.checking.journal_findings import CopyFound, JournalFindings

ACCEPTORS = ("a", "b", "c")


def final(
    acceptor: str, first: int, last: int, digest: bytes | None = b"same", layout: int = -63
) -> CopyFound:
    return CopyFound(acceptor, first, last, True, 1, layout, digest)


def unfinished(
    acceptor: str, first: int, last: int, marks: dict[int, bytes] | None = None, epoch: int = 1
) -> CopyFound:
    return CopyFound(acceptor, first, last, False, epoch, -63, b"any", marks or {})


def checked(
    *copies: CopyFound, acceptors: tuple[str, ...] = ACCEPTORS, **purged_below: int
) -> JournalFindings:
    found = JournalFindings(acceptors=acceptors, copies=list(copies))
    check_agreement(found, {name: purged_below.get(name, 0) for name in acceptors})
    return found


def problems(found: JournalFindings) -> list[str]:
    return [str(problem) for problem in found.problems]


def everywhere(first: int, last: int) -> list[CopyFound]:
    return [final(acceptor, first, last) for acceptor in ACCEPTORS]


def test_three_equal_copies_of_consecutive_segments_are_well() -> None:
    found = checked(*everywhere(1, 10), *everywhere(11, 20), unfinished("a", 21, 25), unfinished("b", 21, 24))
    assert problems(found) == found.notes == []
    assert (found.first_txid, found.last_txid, found.segments) == (1, 25, 3)


def test_copies_that_hold_different_edits_are_found_however_equal_their_ends() -> None:
    found = checked(final("a", 1, 10), final("b", 1, 10, b"other"), final("c", 1, 10))
    assert problems(found) == ["segment 1-10: the copies of a, b, c hold different edits"]


def test_copies_with_different_ends_are_found() -> None:
    found = checked(final("a", 1, 10), final("b", 1, 11), final("c", 1, 10))
    assert "segment 1: it is finalized with different ends: a has 1-10, b has 1-11, c has 1-10" in problems(
        found
    )


def test_missing_txids_are_found() -> None:
    assert problems(checked(*everywhere(1, 10), *everywhere(13, 20))) == [
        "journal: txids 11 to 12 are missing"
    ]
    assert problems(checked(*everywhere(1, 10), unfinished("a", 12, 20))) == ["journal: txid 11 is missing"]


def test_segments_that_overlap_are_found() -> None:
    assert problems(checked(*everywhere(1, 10), *everywhere(8, 20))) == [
        "journal: segment 1-10 overlaps segment 8"
    ]


def test_txids_in_front_of_the_first_segment_are_missing_if_less_was_purged() -> None:
    later = [*everywhere(21, 30), *everywhere(31, 40)]
    assert problems(checked(*later, a=11, b=11, c=11)) == [
        "journal: txids 11 to 20 are missing: only segments that end before them were purged"
    ]
    for purged in (21, 25, 30):
        found = checked(*later, a=purged, b=purged)
        assert problems(found) == found.notes == []
    found = checked(*later)
    assert problems(found) == []
    assert found.notes == ["the journal begins with txid 21, and nothing before it was purged"]


def test_copies_under_different_layouts_are_found() -> None:
    found = checked(final("a", 1, 10), final("b", 1, 10, layout=-60), final("c", 1, 10))
    assert problems(found) == [
        "segment 1-10: the copies have different layouts: a has -63, b has -60, c has -63"
    ]
    open_ones = [unfinished("a", 1, 9), replace(unfinished("b", 1, 9), layout_version=-60)]
    assert problems(checked(*open_ones)) == [
        "segment 1 (in progress): the copies have different layouts: a has -63, b has -60"
    ]


def test_txids_are_lacked_that_no_whole_finalized_copy_has_and_that_not_everybody_purged() -> None:
    found = checked(
        final("a", 11, 20),
        final("b", 21, 30),
        final("c", 31, 40, None),
        unfinished("a", 41, 50),
        a=11,
        b=11,
        c=6,
    )
    assert [found.lacks(*span) for span in ((11, 30), (15, 25), (1, 5))] == [None] * 3
    assert [found.lacks(*span) for span in ((5, 11), (15, 31), (31, 31), (41, 45))] == [6, 31, 31, 41]


def test_a_segment_that_one_more_loss_would_take_from_the_majority_is_a_problem() -> None:
    found = checked(final("a", 1, 10), final("b", 1, 10), *everywhere(11, 20))
    (problem,) = problems(found)
    assert problem == (
        "segment 1-10: acceptor c does not have it finalized: with one more acceptor lost no majority would have it; "
        "`bookledger journal sync` copies it"
    )
    assert found.notes == []


def test_what_so_many_have_that_one_may_be_lost_is_only_noted() -> None:
    names = ("a", "b", "c", "d", "e")
    four = [final(name, 1, 10) for name in names[:4]]
    found = checked(*four, acceptors=names)
    assert problems(found) == []
    assert found.notes == ["segment 1-10: acceptor e does not have it finalized"]
    (problem,) = problems(checked(*four[:3], acceptors=names))
    assert problem.startswith(
        "segment 1-10: acceptors d, e do not have it finalized: with one more acceptor lost"
    )
    both = [final(name, 1, 10) for name in ("a", "b")]
    assert problems(checked(*both, acceptors=("a", "b"))) == [], "there is nobody to copy it to"
    assert problems(checked(final("a", 1, 10), acceptors=("a",))) == []


def test_a_segment_that_no_majority_has_is_a_problem_and_the_latest_one_too() -> None:
    lacking = (
        "no majority has it: acceptors b, c do not have it finalized; `bookledger journal sync` copies it"
    )
    assert problems(checked(final("a", 1, 10))) == [f"segment 1-10: {lacking}"]
    assert problems(checked(final("a", 1, 10), *everywhere(11, 20))) == [f"segment 1-10: {lacking}"]


def test_segments_in_a_row_that_the_same_acceptors_lack_are_one_problem() -> None:
    segments = [final(name, first, first + 9) for first in range(1, 50, 10) for name in ("a", "b")]
    found = checked(*segments, final("c", 21, 30))
    lacking = (
        "acceptor c does not have them finalized: with one more acceptor lost no majority would have them; "
        "`bookledger journal sync` copies them"
    )
    assert problems(found) == [
        f"2 segments, 1-10 to 11-20: {lacking}",
        f"2 segments, 31-40 to 41-50: {lacking}",
    ]
    (alone,) = problems(checked(final("a", 1, 10), final("a", 11, 20)))
    assert alone == (
        "2 segments, 1-10 to 11-20: no majority has them: acceptors b, c do not have them finalized; "
        "`bookledger journal sync` copies them"
    )


def test_who_is_about_to_finalize_a_segment_has_it() -> None:
    found = checked(final("a", 1, 10), final("b", 1, 10), unfinished("c", 1, 10))
    assert problems(found) == []
    assert found.notes == ["segment 1-10: acceptor c does not have it finalized"]
    for less in (unfinished("c", 1, 9), unfinished("c", 1, 10, epoch=2)):
        assert len(problems(checked(final("a", 1, 10), final("b", 1, 10), less))) == 1


def test_of_one_that_does_not_answer_it_is_not_said_what_it_lacks() -> None:
    found = JournalFindings(acceptors=ACCEPTORS, copies=[final("a", 1, 10), final("b", 1, 10)])
    check_agreement(found, {"a": 0, "b": 0}, unknown=["c"])
    assert problems(found) == found.notes == []


def test_what_an_acceptor_has_purged_it_does_not_lack() -> None:
    found = checked(final("a", 1, 10), *everywhere(11, 20), b=11, c=11)
    assert problems(found) == found.notes == []


def test_unfinished_copies_of_one_writer_must_agree_as_far_as_both_go() -> None:
    one = unfinished("a", 1, 9, {3: b"x", 6: b"y", 9: b"z"})
    assert problems(checked(one, unfinished("b", 1, 6, {3: b"x", 6: b"y"}))) == []
    assert problems(checked(one, unfinished("b", 1, 6, {3: b"x", 6: b"other"}))) == [
        "segment 1 (in progress): the copies of a, b hold different edits"
    ]


def test_an_unfinished_copy_of_an_earlier_writer_does_not_count() -> None:
    found = checked(unfinished("a", 1, 9, {9: b"z"}, epoch=1), unfinished("b", 1, 5, {5: b"y"}, epoch=2))
    assert problems(found) == []
    assert found.last_txid == 5


def test_an_unfinished_copy_of_what_is_finalized_elsewhere_does_not_count() -> None:
    found = checked(*everywhere(1, 10), unfinished("c", 1, 12))
    assert problems(found) == []
    assert found.last_txid == 10
