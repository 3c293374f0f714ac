"""Futures of appends, flushes and forces, completed in entry order."""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress
from typing import Protocol

from ..errors import LedgerError


class AppendFuture(Protocol):
    """The future of an append: asyncio's, or concurrent.futures' in another thread."""

    def done(self) -> bool: ...
    def set_result(self, entry_id: int, /) -> None: ...
    def set_exception(self, error: BaseException, /) -> None: ...


Complete = Callable[[Sequence[tuple[int, AppendFuture]]], None]
"""Completes futures in this order, each with its entry id; cancelled ones stay cancelled."""


class AppendFutures:
    """The futures of one writer. A cancelled future keeps its place, unseen."""

    def __init__(self, first: int = 0) -> None:
        """`first`: the id of the first entry that will be taken in."""
        self._appends: deque[tuple[int, AppendFuture]] = deque()  # with the last entry of each
        self._taken_through = first - 1
        self._answered_through = first - 1
        self._flushes: list[tuple[int, AppendFuture]] = []
        self._forces: deque[tuple[int, AppendFuture]] = deque()
        self.complete: Complete = _complete_each

    @property
    def appends_wait(self) -> bool:
        return self._taken_through > self._answered_through

    @property
    def any_wait(self) -> bool:
        return bool(self.appends_wait or self._forces)

    @property
    def next_entry(self) -> int:
        """The id of the next entry taken in."""
        return self._taken_through + 1

    def append(self, future: AppendFuture | None, entries: int = 1) -> None:
        """Adds the future of the next entries, completed with the last id; None if nobody waits."""
        self._taken_through += entries
        if future is not None:
            self._appends.append((self._taken_through, future))

    def append_each(self, futures: Sequence[AppendFuture | None]) -> None:
        """Adds the futures of the next entries, one for each."""
        told = enumerate(futures, self.next_entry)
        self._appends.extend([(entry_id, future) for entry_id, future in told if future is not None])
        self._taken_through += len(futures)

    def flush(self, future: AppendFuture, through: int | None = None) -> None:
        """Adds a future that completes when all appends so far, or those through an entry, have; there must be one."""
        insort(
            self._flushes,
            (self._taken_through if through is None else through, future),
            key=_entry_waited_for,
        )

    def force(self, through: int, future: AppendFuture) -> None:
        """Adds a future that completes when all entries through this one are confirmed; called in rising order."""
        self._forces.append((through, future))

    def accepted(self, through: int) -> None:
        """Completes the appends through this entry."""
        if through <= self._answered_through:
            return
        self._answered_through = through
        appends, answered = self._appends, []
        while appends and appends[0][0] <= through:
            answered.append(appends.popleft())
        if answered:
            self.complete(answered)
        if self._flushes:
            due = bisect_right(self._flushes, through, key=_entry_waited_for)
            flushed, self._flushes = self._flushes[:due], self._flushes[due:]
            for last_entry, future in flushed:
                _complete(future, last_entry)

    def confirmed(self, through: int) -> None:
        """Completes appends and forces through this entry: it is confirmed."""
        self.accepted(through)
        _complete_through(self._forces, through)

    def fail(self, error: LedgerError) -> None:
        """Fails all futures."""
        waiting = [future for _, future in (*self._appends, *self._flushes, *self._forces)]
        self._answered_through = self._taken_through
        self._appends.clear()
        self._flushes.clear()
        self._forces.clear()
        for future in waiting:
            if not future.done():
                with suppress(InvalidStateError):  # cancelled in another thread at this moment
                    future.set_exception(error)
                if isinstance(future, asyncio.Future):
                    future.exception()  # marks it as retrieved; flush and close raise it too


def _complete_each(answered: Sequence[tuple[int, AppendFuture]]) -> None:
    for entry_id, future in answered:
        _complete(future, entry_id)


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
            return  # cancelled in another thread at this moment
