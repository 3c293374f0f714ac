"""Offsets of streams: what a checkpoint keeps, and what follows from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from spark.stream import offsets
from spark.stream.gaps import Gaps, KnownId
from spark.stream.offsets import (
    OPEN_AHEAD_MAX,
    BadOffset,
    JournalOffset,
    LedgersOffset,
    from_ranges,
    to_ranges,
)

ids = st.sets(st.integers(0, 60), max_size=30)


@given(ids)
def test_ranges_hold_what_was_put_in(chosen: set[int]) -> None:
    assert from_ranges(to_ranges(chosen)) == sorted(chosen)


def test_a_run_of_ids_is_short() -> None:
    assert to_ranges([3, 9, 5, 6, 7, 8]) == "3,5-9"


@given(st.integers(0, 30), ids, ids)
def test_an_offset_survives_the_checkpoint(below: int, done: set[int], batch: set[int]) -> None:
    offset = LedgersOffset(below, frozenset(done), tuple(sorted(batch)), "custom.kind=a")
    assert LedgersOffset.from_json(json.loads(json.dumps(offset.to_json())), "custom.kind=a") == offset
    for ledger_id in (None, below):
        journal = JournalOffset("ns1", "a,b", below + 3, below + 1, below + 2, ledger_id)
        assert JournalOffset.from_json(json.loads(json.dumps(journal.to_json())), "ns1", "a,b") == journal


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"txid": 1},
        {"below": 1, "done": "", "batch": ""},
        {"below": 1, "done": "x", "batch": "", "chosen": ""},
        {"below": 1, "done": f"0-{OPEN_AHEAD_MAX}", "batch": "", "chosen": ""},
        JournalOffset("ns1", "main").to_json(),
    ],
)
def test_what_is_no_offset_of_ledgers_is_refused_with_what_to_do(value: dict[str, Any]) -> None:
    with pytest.raises(BadOffset, match=r"not an offset of ledgers: .*new, empty checkpointLocation"):
        LedgersOffset.from_json(value)


def test_the_offset_of_a_stream_of_other_ledgers_is_refused_by_name() -> None:
    stored = LedgersOffset(7, chosen="custom.kind=a").to_json()
    with pytest.raises(
        BadOffset, match=r"of custom.kind=a, but this is a stream of all ledgers.*checkpointLocation"
    ):
        LedgersOffset.from_json(stored)
    with pytest.raises(BadOffset, match=r"of custom.kind=a, but this is a stream of ledgers=7"):
        LedgersOffset.from_json(stored, "ledgers=7")


@pytest.mark.parametrize("value", [{"below": 1}, {"txid": 21}, LedgersOffset(7).to_json()])
def test_what_is_no_offset_of_a_journal_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(BadOffset, match=r"not an offset of a journal: .*new, empty checkpointLocation"):
        JournalOffset.from_json(value, "ns1", "main")


@pytest.mark.parametrize(("journal", "acceptors"), [("ns2", "a,b"), ("ns1", "a"), ("ns1", "b,a")])
def test_the_offset_of_another_journal_or_of_other_acceptors_is_refused(journal: str, acceptors: str) -> None:
    stored = JournalOffset("ns1", "a,b", 21, 11, 11, 3).to_json()
    with pytest.raises(
        BadOffset, match=f"journal ns1 at acceptors a,b.*journal {journal} at acceptors {acceptors}"
    ):
        JournalOffset.from_json(stored, journal, acceptors)


def test_nothing_delivered_is_the_same_offset() -> None:
    offset = LedgersOffset(5, frozenset({7}), (7,))
    assert offset.after([], [6], 10) is offset


def test_an_offset_stays_at_the_oldest_that_is_open() -> None:
    first = LedgersOffset().after([1, 3, 4], [2], 5)
    assert (first.below, first.done, first.batch) == (2, frozenset({3, 4}), (1, 3, 4))
    second = first.after([2], [], 5)
    assert (second.below, second.done, second.batch) == (5, frozenset(), (2,))


def test_an_offset_takes_no_more_ledgers_ahead_than_it_can_be_read_back_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets, "OPEN_AHEAD_MAX", 3)
    offset = LedgersOffset()
    delivered: list[int] = []
    while admitted := offset.admitted([i for i in range(2, 9) if not offset.has(i)], [1], 9):
        delivered += admitted
        offset = offset.after(admitted, [1], 9)
        assert LedgersOffset.from_json(offset.to_json()) == offset
    assert delivered == [2, 3, 4]
    assert offset.admitted([1, *range(5, 9)], [], 9) == [1, 5, 6]
    assert offset.admitted([1, 6, 7, 8], [5], 9) == [1, 6, 7]
    assert LedgersOffset(1, frozenset({4, 8, 9})).admitted([1, 6, 7], [5], 9) == [1, 6]
    assert offset.after([1], range(5, 9), 9).admitted(range(5, 9), [], 9) == [5, 6, 7]


def test_an_id_behind_the_end_is_kept_apart_so_that_those_before_it_may_still_come() -> None:
    offset = LedgersOffset().after([1, 2, 900], [], 3)
    assert (offset.below, offset.done) == (3, frozenset({900}))
    assert [offset.has(i) for i in (2, 3, 900)] == [True, False, True]
    assert offset.after([3], [], 4).done == frozenset({900})


class Ledgers(RuleBasedStateMachine):
    """Ids are taken in order and used later; ledgers close in any order, and are delivered by a stream."""

    ahead_max = OPEN_AHEAD_MAX

    @initialize()
    def begin(self) -> None:
        self.next_id = 1
        self.taken: set[int] = set()
        self.open: set[int] = set()
        self.closed: set[int] = set()
        self.offset = LedgersOffset()
        self.delivered: list[int] = []
        self.gaps = Gaps()
        offsets.OPEN_AHEAD_MAX = self.ahead_max

    @rule()
    def take(self) -> None:
        self.taken.add(self.next_id)
        self.next_id += 1

    @rule(pick=st.randoms(use_true_random=False))
    def make(self, pick: Any) -> None:
        if self.taken:
            made = pick.choice(sorted(self.taken))
            self.taken.remove(made)
            self.open.add(made)

    @rule(pick=st.randoms(use_true_random=False))
    def close(self, pick: Any) -> None:
        if self.open:
            closed = pick.choice(sorted(self.open))
            self.open.remove(closed)
            self.closed.add(closed)

    @rule(most=st.integers(1, 3))
    def deliver(self, most: int) -> None:
        self.offset = LedgersOffset.from_json(self.offset.to_json())
        known = [KnownId(i) for i in sorted(self.open | self.closed)]
        due = {i for i in self.closed if not self.offset.has(i)}
        self.gaps.look(known, 0, 0)
        missing = self.gaps.first([k for k in known if k.ledger_id >= self.offset.below], self.offset.below)
        waiting = self.open | {missing} if missing is not None else self.open
        end = max((k.ledger_id for k in known), default=0) + 1
        batch = self.offset.admitted(due, waiting, end)[:most]
        self.offset = self.offset.after(batch, (waiting | due) - set(batch), end)
        self.delivered += batch

    @invariant()
    def each_is_delivered_once_and_none_is_forgotten(self) -> None:
        assert len(set(self.delivered)) == len(self.delivered)
        assert set(self.delivered) <= self.closed
        left = self.taken | self.open | (self.closed - set(self.delivered))
        assert not [ledger_id for ledger_id in left if self.offset.has(ledger_id)]
        assert max(len(self.offset.done), len(self.offset.batch)) <= offsets.OPEN_AHEAD_MAX

    def teardown(self) -> None:
        """Once nothing is open, all of them come."""
        try:
            self.closed |= self.open | self.taken
            self.open, self.taken = set(), set()
            for _ in range(len(self.closed)):
                self.deliver(3)
            assert sorted(self.delivered) == sorted(self.closed)
        finally:
            offsets.OPEN_AHEAD_MAX = OPEN_AHEAD_MAX


class FewAhead(Ledgers):
    """The same, with no more than three delivered beyond an open one."""

    ahead_max = 3


TestFewAhead = FewAhead.TestCase


TestLedgers = Ledgers.TestCase
