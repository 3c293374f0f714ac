"""Blocking cursors."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from metadata.records.coordination.cursor_record import CursorRecord

from ..entry import check_int
from ..errors import ClientClosed
from ..logs.cursors import cursor as aio
from ..logs.cursors.consumption import Consumption
from ..logs.record_batch import Record
from ..loop_thread import LoopThread, iterate
from .twin_calls import BlockingFacade, copy_docstring, waiting_for


class Cursor(BlockingFacade[aio.Cursor]):
    """A named position in a log: the position of the next record that its reader is to use.

    Made by `Log.cursor`; may be used from several threads. `commit` moves the cursor forward; commits within
    `commit_seconds` are combined into one write. Only `seek` moves it back. Other readers get CursorMoved if, after a
    seek, they commit records that they read before the seek. `close` and leaving the context manager close the cursor.
    """

    @property
    def name(self) -> str:
        """The cursor's name."""
        return self._twin.name

    @property
    def record(self) -> CursorRecord:
        """The cursor's record, as last read or written."""
        return self._twin.record

    @property
    def position(self) -> int:
        """The committed position: every record before it has been committed, and the commit has been written."""
        return self._twin.position

    @copy_docstring(aio.Cursor.commit)
    def commit(self, position: int) -> None:
        check_int("a position", position)
        self._thread.check_open()
        self._twin.check_usable()
        note(self._thread, self._twin, position)

    flush = waiting_for(aio.Cursor.flush)
    seek = waiting_for(aio.Cursor.seek)
    refresh = waiting_for(aio.Cursor.refresh)
    lag = waiting_for(aio.Cursor.lag)
    close = waiting_for(aio.Cursor.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ClientClosed:  # the client has already closed the cursor
            if kind is None:
                raise


def note(thread: LoopThread, cursor: aio.Cursor, position: int) -> None:
    """Commits a position from any thread; switches to the loop's thread only to start a write."""
    if cursor.note(position):
        thread.call_soon(cursor.start_writing)


def consume(thread: LoopThread, consumption: Consumption) -> Iterator[Record]:
    """Yields records one by one. A record counts as used when the caller asks for the next one."""
    for batch in iterate(thread, consumption.batches()):
        for record in batch.records():
            if consumption.is_over:
                break
            yield record
            assert consumption.cursor is not None
            note(thread, consumption.cursor, record.position + 1)
