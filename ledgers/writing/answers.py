"""Who waits for which entry: the futures of appends, flushes and forces, completed in entry order."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import InvalidStateError
from contextlib import suppress
from typing import Protocol

from ..errors import LedgerError


class AppendFuture(Protocol):
    """What an append is answered with: asyncio's future, or concurrent.futures' in another thread."""

    def done(self) -> bool: ...
    def set_result(self, entry_id: int, /) -> None: ...
    def set_exception(self, error: BaseException, /) -> None: ...


class Answers:
    """The futures of one writer. A future that was cancelled keeps its place, and nobody hears of it."""

    def __init__(self) -> None:
        self._appends: deque[AppendFuture] = deque()
        self._first_unanswered = 0  # the entry the oldest append stands for
        self._flushes: deque[tuple[int, AppendFuture]] = deque()
        self._forces: deque[tuple[int, AppendFuture]] = deque()

    @property
    def appends_wait(self) -> bool:
        return bool(self._appends)

    @property
    def any_wait(self) -> bool:
        return bool(self._appends or self._forces)

    def append(self, future: AppendFuture) -> None:
        """The future of the next entry."""
        self._appends.append(future)

    def flush(self, future: AppendFuture) -> None:
        """A future for every append so far being answered; there must be one."""
        self._flushes.append((self._first_unanswered + len(self._appends) - 1, future))

    def force(self, through: int, future: AppendFuture) -> None:
        """A future for all entries through this one being confirmed; asked for in rising order."""
        self._forces.append((through, future))

    def accepted(self, through: int) -> None:
        """Appends through this entry have what they wait for."""
        take = self._appends.popleft
        for entry_id in range(self._first_unanswered, through + 1):
            self._first_unanswered = entry_id + 1
            future = take()
            if not future.done():
                try:
                    future.set_result(entry_id)
                except InvalidStateError:  # cancelled in another thread at this moment
                    continue
        _complete_through(self._flushes, through)

    def confirmed(self, through: int) -> None:
        """Entries through this one are confirmed."""
        self.accepted(through)
        _complete_through(self._forces, through)

    def fail(self, error: LedgerError) -> None:
        """Nothing more will be answered."""
        waiting = [*self._appends, *(future for _, future in (*self._flushes, *self._forces))]
        self._appends.clear()
        self._flushes.clear()
        self._forces.clear()
        for future in waiting:
            if not future.done():
                with suppress(InvalidStateError):  # cancelled in another thread at this moment
                    future.set_exception(error)
                if isinstance(future, asyncio.Future):
                    future.exception()  # told here; flush and close raise it too, so it is not lost


def _complete_through(waiting: deque[tuple[int, AppendFuture]], through: int) -> None:
    while waiting and waiting[0][0] <= through:
        last_entry, future = waiting.popleft()
        _complete(future, last_entry)


def _complete(future: AppendFuture, entry_id: int) -> None:
    if not future.done():
        with suppress(InvalidStateError):  # cancelled in another thread at this moment
            future.set_result(entry_id)
