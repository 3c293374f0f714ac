"""Offsets of streams: what a checkpoint keeps, and what follows from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from spark import offsets
from spark.offsets import (
    GAP_SECONDS,
    OPEN_AHEAD_MAX,
    BadOffset,
    JournalOffset,
    KnownId,
    LedgersOffset,
    from_ranges,
    missing_id,
    to_ranges,
)

NOW = 10**12
LONG_AGO = NOW - 1000 * GAP_SECONDS - 1

ids = st.sets(st.integers(0, 60), max_size=30)


@given(ids)
def test_ranges_hold_what_was_put_in(chosen: set[int]) -> None:
    assert from_ranges(to_ranges(chosen)) == sorted(chosen)


def test_a_run_of_ids_is_short() -> None:
    assert to_ranges([3, 9, 5, 6, 7, 8]) == "3,5-9"


@given(st.integers(0, 30), ids, ids)
def test_an_offset_survives_the_checkpoint(below: int, done: set[int], batch: set[int]) -> None:
    offset = LedgersOffset(below, frozenset(done), tuple(sorted(batch)))
    assert LedgersOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset
    journal = JournalOffset(below)
    assert JournalOffset.from_json(json.loads(json.dumps(journal.to_json()))) == journal


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"txid": 1},
        {"below": 1, "done": "x", "batch": ""},
        {"below": 1, "done": f"0-{OPEN_AHEAD_MAX}", "batch": ""},
    ],
)
def test_an_offset_of_another_stream_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(BadOffset):
        LedgersOffset.from_json(value)


def test_a_journals_offset_is_not_taken_from_another_stream() -> None:
    with pytest.raises(BadOffset):
        JournalOffset.from_json({"below": 1})


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
    while admitted := offset.admitted(i for i in range(2, 9) if not offset.has(i)):
        delivered += admitted
        offset = offset.after(admitted, [1], 9)
        assert LedgersOffset.from_json(offset.to_json()) == offset
    assert delivered == [2, 3, 4]
    assert offset.after([1], range(5, 9), 9).admitted(range(5, 9)) == [5, 6, 7]


def test_a_young_gap_is_waited_for_and_an_old_one_is_not() -> None:
    young = [KnownId(1, NOW), KnownId(2, NOW), KnownId(4, NOW)]
    assert missing_id(young, 1, NOW) == 3
    assert missing_id(young, 0, NOW) == 0
    old = [KnownId(1, LONG_AGO), KnownId(4, LONG_AGO), KnownId(6, NOW)]
    assert missing_id(old, 1, NOW) == 5
    assert missing_id([KnownId(1, LONG_AGO), KnownId(4, LONG_AGO)], 1, NOW) is None


def test_a_deleted_ledger_is_no_gap() -> None:
    assert missing_id([KnownId(1, NOW), KnownId(2), KnownId(3, NOW)], 1, NOW) is None
    assert missing_id([], 7, NOW) is None


class Ledgers(RuleBasedStateMachine):
    """Ids are taken in order and used later; ledgers close in any order, and are delivered by a stream."""

    @initialize()
    def begin(self) -> None:
        self.next_id = 1
        self.taken: set[int] = set()
        self.open: set[int] = set()
        self.closed: set[int] = set()
        self.offset = LedgersOffset()
        self.delivered: list[int] = []

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
        known = [KnownId(i, NOW) for i in sorted(self.open | self.closed)]
        batch = self.offset.admitted(i for i in self.closed if not self.offset.has(i))[:most]
        waiting = (self.open | self.closed) - set(batch)
        missing = missing_id([k for k in known if k.ledger_id >= self.offset.below], self.offset.below, NOW)
        if missing is not None:
            waiting.add(missing)
        self.offset = self.offset.after(batch, waiting, max((k.ledger_id for k in known), default=0) + 1)
        self.delivered += batch

    @invariant()
    def each_is_delivered_once_and_none_is_forgotten(self) -> None:
        assert len(set(self.delivered)) == len(self.delivered)
        assert set(self.delivered) <= self.closed
        left = self.taken | self.open | (self.closed - set(self.delivered))
        assert not [ledger_id for ledger_id in left if self.offset.has(ledger_id)]


TestLedgers = Ledgers.TestCase
