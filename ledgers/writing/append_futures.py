"""Futures of appends, flushes and forces, completed in entry order."""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ..errors import LedgerError


class AppendFuture(Protocol):
    """The future of an append: asyncio's, or concurrent.futures' in another thread."""

    def done(self) -> bool: ...
    def set_result(self, entry_id: int, /) -> None: ...
    def set_exception(self, error: BaseException, /) -> None: ...


Complete = Callable[[Sequence[tuple[int, Sequence[AppendFuture]]]], None]
"""Completes runs of futures in the given order. The entry id of a run's first future is given, and each further future
has the next id. Cancelled futures remain cancelled."""


@dataclass(slots=True)
class _FutureRun:
    """Futures of consecutive entries, beginning with this id. They are not stored as pairs: with thousands of entries
    in flight, a process would spend more time on garbage collection of so many objects than on all other work for an
    append."""

    first: int
    futures: list[AppendFuture]

    def through(self, last: int) -> list[AppendFuture]:
        """Removes and returns the futures through this entry."""
        taken, self.futures = self.futures[: last + 1 - self.first], self.futures[last + 1 - self.first :]
        self.first += len(taken)
        return taken


class AppendFutures:
    """The futures of one writer. A cancelled future keeps its place."""

    def __init__(self, first: int = 0) -> None:
        """`first`: the id of the first entry that will be added."""
        self._runs: deque[_FutureRun] = deque()  # a batch has one future, completed with its last id
        self.last_run: list[AppendFuture] = []
        """Futures of the next entries, one per entry; a caller that appends one entry adds its future here directly."""
        self._counted_through = first - 1  # the last entry before that run
        self._answered_through = first - 1
        self._flushes: list[tuple[int, AppendFuture]] = []
        self._forces: deque[tuple[int, AppendFuture]] = deque()
        self.complete: Complete = _complete_each

    @property
    def appends_wait(self) -> bool:
        return self._counted_through + len(self.last_run) > self._answered_through

    @property
    def _taken_through(self) -> int:
        return self._counted_through + len(self.last_run)

    @property
    def any_wait(self) -> bool:
        return self.appends_wait or bool(self._forces)

    @property
    def next_entry(self) -> int:
        """The id that the next entry will have."""
        return self._taken_through + 1

    def append(self, future: AppendFuture | None, entries: int = 1) -> None:
        """Adds one future for the next `entries` entries, which is completed with the id of the last one. `future` is
        None if no caller is waiting."""
        if future is not None and entries == 1:
            self.last_run.append(future)
            return
        self._end_run()
        self._counted_through += entries
        if future is not None:
            self._runs.append(_FutureRun(self._counted_through, [future]))

    def append_each(self, entries: int, futures: Sequence[AppendFuture]) -> None:
        """Adds one future for each of the next `entries` entries, or none if no caller is waiting."""
        assert len(futures) in (0, entries)
        if futures:
            self.last_run += futures
        else:
            self.append(None, entries)

    def _end_run(self) -> None:
        """Drops the references to the futures, because a completed future would keep its writer alive."""
        if self.last_run:
            self._runs.append(_FutureRun(self._counted_through + 1, self.last_run))
            self._counted_through += len(self.last_run)
            self.last_run = []

    def flush(self, future: AppendFuture, through: int | None = None) -> None:
        """Adds a future that completes together with all appends so far or, with `through`, together with the appends
        through that entry. There must be at least one such append."""
        insort(
            self._flushes,
            (self._taken_through if through is None else through, future),
            key=_entry_waited_for,
        )

    def force(self, through: int, future: AppendFuture) -> None:
        """Adds a future that completes when all entries through this one are confirmed. Calls must be in ascending
        order."""
        self._forces.append((through, future))

    def accepted(self, through: int) -> None:
        """Completes the appends through this entry."""
        if through <= self._answered_through:
            return
        self._answered_through = through
        if answered := self._answered(through):
            self.complete(answered)
        if self._flushes:
            due = bisect_right(self._flushes, through, key=_entry_waited_for)
            flushed, self._flushes = self._flushes[:due], self._flushes[due:]
            for last_entry, future in flushed:
                _complete(future, last_entry)

    def _answered(self, through: int) -> list[tuple[int, list[AppendFuture]]]:
        """Removes and returns the futures through this entry."""
        answered, runs = [], self._runs
        if (
            self.last_run and not runs and through == self._taken_through
        ):  # all futures complete, as after a single append
            answered, self.last_run = [(self._counted_through + 1, self.last_run)], []
            self._counted_through = through
            return answered
        self._end_run()
        while runs and runs[0].first <= through:
            first = runs[0].first
            answered.append((first, runs[0].through(through)))
            if not runs[0].futures:
                runs.popleft()
        return answered

    def confirmed(self, through: int) -> None:
        """Completes the appends and forces through this entry, which has been confirmed."""
        self.accepted(through)
        _complete_through(self._forces, through)

    def fail(self, error: LedgerError) -> None:
        """Fails all futures."""
        self._end_run()
        appends = [future for run in self._runs for future in run.futures]
        waiting = [*appends, *(future for _, future in (*self._flushes, *self._forces))]
        self._answered_through = self._taken_through
        self._runs.clear()
        self._flushes.clear()
        self._forces.clear()
        for future in waiting:
            if not future.done():
                with suppress(InvalidStateError):  # another thread has just cancelled the future
                    future.set_exception(error)
                if isinstance(future, asyncio.Future):
                    future.exception()  # marks the exception as retrieved; flush and close raise it too


def _complete_each(answered: Sequence[tuple[int, Sequence[AppendFuture]]]) -> None:
    for first, futures in answered:
        for entry_id, future in enumerate(futures, first):
            if not future.done():  # in the loop's own thread, so no other thread cancels it at this moment
                future.set_result(entry_id)


def complete_and(then: Callable[[], None]) -> Complete:
    """Completes futures in the loop's own thread, and calls `then` once the tasks waiting for them have been woken."""

    def complete(answered: Sequence[tuple[int, Sequence[AppendFuture]]]) -> None:
        _complete_each(answered)
        then()

    return complete


def _entry_waited_for(waiting: tuple[int, AppendFuture]) -> int:
    return waiting[0]


def _complete_through(waiting: deque[tuple[int, AppendFuture]], through: int) -> None:
    while waiting and waiting[0][0] <= through:
        last_entry, future = waiting.popleft()
        _complete(future, last_entry)


def _complete(future: AppendFuture, entry_id: int) -> None:
    if not future.done():
        try:
            future.set_result(entry_id)
        except InvalidStateError:
            return  # another thread has just cancelled the future
