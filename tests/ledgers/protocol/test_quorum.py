"""Counting answers, against counting on fingers."""

from __future__ import annotations

from itertools import product

import pytest

from ledgers.protocol.quorum import EveryQuorum, Outcome, Quorum, majority, worst


@pytest.mark.parametrize("size", range(1, 6))
def test_a_quorum_is_won_lost_or_pending_as_the_remaining_votes_decide(size: int) -> None:
    """Every split of up to five voters into yes, no and silent."""
    voters = tuple(range(size))
    for needed, votes in product(range(1, size + 1), product("yn?", repeat=size)):
        yes = {v for v in voters if votes[v] == "y"}
        no = {v for v in voters if votes[v] == "n"}
        best_case = size - len(no)
        expected = (
            Outcome.WON if len(yes) >= needed else Outcome.PENDING if best_case >= needed else Outcome.LOST
        )
        assert Quorum(voters, needed).outcome(yes, no) is expected


def test_votes_of_strangers_do_not_count() -> None:
    assert Quorum((1, 2, 3), 2).outcome({7, 8, 1}, {9}) is Outcome.PENDING


@pytest.mark.parametrize("size", range(1, 5))
def test_the_mark_is_the_highest_that_so_many_voters_have_reached(size: int) -> None:
    voters = tuple(range(10, 10 + size))
    for needed, reached in product(range(1, size + 1), product(range(-1, 4), repeat=size)):
        marks = dict(zip(voters, reached, strict=True))
        slow = max(m for m in range(-1, 4) if sum(r >= m for r in reached) >= needed)
        assert Quorum(voters, needed).mark(marks) == slow


@pytest.mark.parametrize(("voters", "needed"), [((1, 2), 0), ((1, 2), 3), ((1, 1, 2), 2), ((), 1)])
def test_a_quorum_that_cannot_be_is_refused(voters: tuple[int, ...], needed: int) -> None:
    with pytest.raises(AssertionError):
        Quorum(voters, needed)


def test_several_quorums_are_won_together_and_lost_by_one() -> None:
    both = EveryQuorum((Quorum((0, 1), 1), Quorum((2, 3), 2)))
    assert both.outcome({0, 2}) is Outcome.PENDING
    assert both.outcome({0, 2, 3}) is Outcome.WON
    assert both.outcome({0, 1}, {3}) is Outcome.LOST
    assert both.outcome((), {0, 1}) is Outcome.LOST


def test_lost_beats_pending_beats_won() -> None:
    assert worst([Outcome.WON, Outcome.PENDING, Outcome.LOST]) is Outcome.LOST
    assert worst([Outcome.WON, Outcome.PENDING]) is Outcome.PENDING
    assert worst([Outcome.WON]) is Outcome.WON


@pytest.mark.parametrize("size", range(1, 10))
def test_any_two_majorities_meet_and_no_smaller_count_would_do(size: int) -> None:
    needed = majority(tuple(range(size))).needed
    assert 2 * needed > size
    assert 2 * (needed - 1) <= size
