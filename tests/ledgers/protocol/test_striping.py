"""Write sets, coverage and confirmation, against a twin that is too dumb to be wrong (rules W1, W2, R2)."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from ledgers.protocol.quorum import Outcome
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import Shape

SHAPES = [
    Shape(ensemble, writes, acks)
    for ensemble in range(1, 7)
    for writes in range(1, ensemble + 1)
    for acks in range(1, writes + 1)
]


def positions_of(shape: Shape, entry_id: int) -> list[int]:
    """The twin of `write_set`: (i mod E) … (i+Qw−1 mod E)."""
    return [(entry_id + step) % shape.ensemble_size for step in range(shape.write_quorum)]


def ack_quorums_of(shape: Shape, entry_id: int) -> list[frozenset[int]]:
    return [frozenset(c) for c in combinations(positions_of(shape, entry_id), shape.ack_quorum)]


def is_covered(shape: Shape, fenced: frozenset[int]) -> bool:
    """No entry can get an ack quorum of bookies that are not fenced."""
    return all(
        quorum & fenced
        for entry_id in range(shape.ensemble_size)
        for quorum in ack_quorums_of(shape, entry_id)
    )


def confirmed_by_counting(shape: Shape, acked: dict[int, set[int]], last_pushed: int) -> int:
    """The twin of `confirmed_through`: entry by entry, bookie by bookie."""
    for entry_id in range(last_pushed + 1):
        holders = sum(entry_id in acked[position] for position in positions_of(shape, entry_id))
        if holders < shape.ack_quorum:
            return entry_id - 1
    return last_pushed


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_entries_that_belong_on_no_other_positions_are_counted(shape: Shape) -> None:
    striping = Striping(shape)
    for count in range(shape.ensemble_size + 1):
        for positions in combinations(range(shape.ensemble_size), count):
            for first, last in ((0, -1), (0, 0), (3, 3), (2, 17), (5, 16)):
                one_by_one = [
                    i for i in range(first, last + 1) if set(positions_of(shape, i)) <= {*positions}
                ]
                assert striping.held_by_none_but(positions, first, last) == len(one_by_one)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_entry_belongs_to_the_positions_of_its_write_set(shape: Shape) -> None:
    """W1"""
    striping = Striping(shape)
    for entry_id in range(2 * shape.ensemble_size + 1):
        expected = positions_of(shape, entry_id)
        assert list(striping.write_set(entry_id)) == expected
        holding = [p for p in range(shape.ensemble_size) if striping.holds(p, entry_id)]
        assert holding == sorted(expected)
    assert striping.is_striped == (len(set(positions_of(shape, 0))) < shape.ensemble_size)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_coverage_is_won_exactly_when_the_fenced_meet_every_ack_quorum(shape: Shape) -> None:
    """R2, F10: and lost exactly when even all that have not failed would not."""
    striping, everyone = Striping(shape), frozenset(range(shape.ensemble_size))
    for size in range(shape.ensemble_size + 1):
        for fenced in map(frozenset, combinations(everyone, size)):
            won = striping.coverage.outcome(fenced) is Outcome.WON
            assert won == is_covered(shape, fenced)
            failed = everyone - fenced
            lost = striping.coverage.outcome((), failed) is Outcome.LOST
            assert lost == (not is_covered(shape, fenced))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_so_many_absences_and_no_fewer_leave_no_room_for_an_ack_quorum(shape: Shape) -> None:
    """R3: the bookies that lack an entry prove that it was never confirmed."""
    striping = Striping(shape)
    for residue, quorum in enumerate(striping.absent_quorums):
        members = positions_of(shape, residue)
        for size in range(len(members) + 1):
            for lacking in combinations(members, size):
                may_be_confirmed = any(not q & set(lacking) for q in ack_quorums_of(shape, residue))
                assert (quorum.outcome(lacking) is Outcome.WON) == (not may_be_confirmed)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_confirmation_by_marks_is_confirmation_by_counting(shape: Shape) -> None:
    """W2: random progress of each bookie over the entries that it holds, in order."""
    rng = random.Random(str(shape))
    striping = Striping(shape)
    for _ in range(300):
        last_pushed = rng.randint(-1, 14)
        marks = {p: rng.randint(-1, last_pushed) for p in range(shape.ensemble_size)}
        acked = {
            p: {i for i in range(marks[p] + 1) if p in positions_of(shape, i)}
            for p in range(shape.ensemble_size)
        }
        assert striping.confirmed_through(marks, last_pushed) == confirmed_by_counting(
            shape, acked, last_pushed
        )
