"""Cursors in ordinary code."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from metadata.records.coordination.cursor_record import CursorRecord

from ...entry import check_int
from ...errors import ClientClosed
from ...logs.cursors import cursor as aio
from ...logs.cursors.consumption import Consumption
from ...logs.cursors.lag import Lag
from ...logs.cursors.where import Where
from ...logs.record_batch import Record
from ...loop_thread import LoopThread, iterate


class Cursor:
    """A named position in a log; see `ledgers.logs.cursors.cursor.Cursor`. May be used from several threads."""

    def __init__(self, thread: LoopThread, twin: aio.Cursor) -> None:
        self._thread = thread
        self._twin = twin

    def __repr__(self) -> str:
        return repr(self._twin)

    @property
    def name(self) -> str:
        return self._twin.name

    @property
    def record(self) -> CursorRecord:
        """The cursor as it was seen last."""
        return self._twin.record

    @property
    def position(self) -> int:
        """Everything before it was committed and written."""
        return self._twin.position

    def commit(self, position: int) -> None:
        """Everything before this position has been used. Returns at once; it is written soon, or by `flush`."""
        check_int("a position", position)
        self._thread.check_open()
        self._twin.check_usable()
        note(self._thread, self._twin, position)

    def flush(self) -> None:
        """Writes now what was committed."""
        self._thread.run(self._twin.flush())

    def seek(self, where: Where) -> int:
        """Moves it, back or forth: to a position, a time, "beginning" or "end"; returns the position."""
        return self._thread.run(self._twin.seek(where))

    def refresh(self) -> int:
        """Reads it again, also after a seek of somebody else; returns its position, from which to read on."""
        return self._thread.run(self._twin.refresh())

    def lag(self) -> Lag:
        """How far its committed position is behind the log's end."""
        return self._thread.run(self._twin.lag())

    def close(self) -> None:
        """Writes what was committed, unless it was made with `commits_at_close=False`. Safe to repeat."""
        self._thread.run(self._twin.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ClientClosed:  # which has closed it
            if kind is None:
                raise


def note(thread: LoopThread, cursor: aio.Cursor, position: int) -> None:
    """Commits a position from any thread, with a hop to the loop for each write only."""
    if cursor.note(position):
        thread.call_soon(cursor.start_writing)


def consume(thread: LoopThread, consumption: Consumption) -> Iterator[Record]:
    """Yields records one by one; one counts as used when the next one is asked for."""
    for batch in iterate(thread, consumption.batches()):
        for record in batch.records():
            if consumption.is_over:
                break
            yield record
            assert consumption.cursor is not None
            note(thread, consumption.cursor, record.position + 1)
