"""Whatever becomes of ledgers, and however often a stream is started again: each is delivered once."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes

from ledgers import LedgerError
from spark.stream.offsets import NO_REVISION, to_ranges
from tests.spark.stream.streamed import Records


class Streamed(RuleBasedStateMachine):
    """Ids are taken and used later, ledgers close and are deleted, streams are started again: each comes once."""

    options: ClassVar = {"custom.kind": "a", "failOnDataLoss": "false"}

    @initialize()
    def begin(self) -> None:
        self.records = Records()
        self.stream = self.records.stream(**self.options)
        self.next_id = 1
        self.taken: set[int] = set()
        self.open: set[int] = set()
        self.closed: set[int] = set()
        self.deleted: set[int] = set()
        self.delivered: list[int] = []

    @rule(times=st.integers(1, 3))
    def take(self, times: int) -> None:
        self.taken.update(range(self.next_id, self.next_id + times))
        self.next_id += times

    @rule(pick=st.randoms(use_true_random=False), chosen=st.booleans(), is_open=st.booleans())
    def make(self, pick: Any, chosen: bool, is_open: bool) -> None:
        if self.taken:
            made = pick.choice(sorted(self.taken))
            self.taken.remove(made)
            self.records.make(made, open_now=is_open, kind="a" if chosen else "b")
            if chosen:
                (self.open if is_open else self.closed).add(made)

    @rule(pick=st.randoms(use_true_random=False))
    def close(self, pick: Any) -> None:
        if self.open:
            one = pick.choice(sorted(self.open))
            self.open.remove(one)
            self.closed.add(one)
            self.records.close(one)

    @rule(pick=st.randoms(use_true_random=False))
    def delete(self, pick: Any) -> None:
        if unread := self.open | self.closed.difference(self.delivered):
            one = pick.choice(sorted(unread))
            self.open.discard(one)
            self.closed.discard(one)
            self.deleted.add(one)
            self.records.delete(one)

    def batch(self, limit: ReadLimit) -> list[int]:
        return self.stream.batch(limit)

    @rule()
    def restart(self) -> None:
        self.stream.restart()

    @rule(most=st.integers(1, 3))
    def deliver(self, most: int) -> None:
        self.delivered += self.batch(ReadMaxBytes(1000 * most))

    @rule()
    def catch_up(self) -> None:
        while batch := self.batch(ReadAllAvailable()):
            self.delivered += batch
        assert set(self.delivered) == self.closed

    @invariant()
    def each_is_delivered_once(self) -> None:
        assert len(set(self.delivered)) == len(self.delivered)
        assert set(self.delivered) <= self.closed


TestStreamed = Streamed.TestCase


class StreamedBesideChosenIds(Streamed):
    """Ids come from the cluster's counter; others are chosen by hand, far above it."""

    @initialize()
    def begin_high(self) -> None:
        self.next_high = 10**12

    @rule(times=st.integers(1, 3))
    def take(self, times: int) -> None:
        self.taken.update(self.records.count(times))

    @rule(is_open=st.booleans())
    def choose(self, is_open: bool) -> None:
        self.records.make(self.next_high, open_now=is_open, kind="a")
        (self.open if is_open else self.closed).add(self.next_high)
        self.next_high += 1


TestStreamedBesideChosenIds = StreamedBesideChosenIds.TestCase


class StreamedWithLosses(Streamed):
    """Each ledger comes once, or ends the stream by its id, which goes on without it when it is told to."""

    options: ClassVar = {"ledgers": "1-999"}
    has_begun = False

    @rule(pick=st.randoms(use_true_random=False), chosen=st.just(True), is_open=st.booleans())
    def make(self, pick: Any, chosen: bool, is_open: bool) -> None:
        super().make(pick, chosen, is_open)

    @rule(pick=st.randoms(use_true_random=False))
    def delete(self, pick: Any) -> None:
        super().delete(pick)
        self._forget_what_was_before_it_began()

    @rule()
    def restart(self) -> None:
        self.stream.restart()
        self.has_begun = self.stream.offset["revision"] != NO_REVISION
        self._forget_what_was_before_it_began()

    def _forget_what_was_before_it_began(self) -> None:
        if not self.has_begun:
            self.deleted.clear()

    def batch(self, limit: ReadLimit) -> list[int]:
        is_lost = bool(self.deleted)
        if is_lost:
            with pytest.raises(LedgerError, match=f"{to_ranges(self.deleted)} w.*deleted before the stream"):
                self.stream.batch(limit)
            self.stream.restart(failOnDataLoss="false")
        found = self.stream.batch(limit)
        self.has_begun = True
        if is_lost:
            self.deleted.clear()
            self.restart()
        return found


TestStreamedWithLosses = StreamedWithLosses.TestCase
