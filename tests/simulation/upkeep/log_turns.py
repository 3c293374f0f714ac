"""The product's log writer without its thread: each group is a turn of the virtual loop's threads."""

from __future__ import annotations

import asyncio
from typing import Any

from bookie.log.format import BookieLogRecord
from bookie.log.group_commit import BookieLogWriter
from tests.simulation.engine.threads import ThreadedLoop


class SteppedLogWriter(BookieLogWriter):
    """Belongs to an `ThreadedLoop`. What `_run` does, a turn at a time."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ThreadedLoop)
        self._loop = loop
        self._now = loop.time
        self._is_due = False
        self._has_ended = False

    def start(self) -> None:
        """Turns come when something waits."""

    def submit(self, record: BookieLogRecord, ticket: object, *, deferred_sync: bool = False) -> int:
        size = super().submit(record, ticket, deferred_sync=deferred_sync)
        self._want_turn()
        return size

    def stop(self) -> None:
        super().stop()
        if not self._has_ended:
            self._has_ended = True
            self._run()

    stop.is_alone = True  # type: ignore[attr-defined]  # a turn that was overtaken must end first

    def _want_turn(self, after: float = 0.0) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.in_a_thread(self._turn, after=after)

    def _turn(self) -> None:
        if self._has_ended:
            return
        try:
            self._commit((self._next_group() or ()) if self.waiting else ())
        except Exception as error:  # as in `_run`
            self._has_ended = True
            self._on_failure(error)
            return
        self._is_due = False
        if self.waiting:
            self._want_turn()
        elif self._unsynced:
            self._want_turn(self._seconds_to_sync())
