"""The blocking reader. Pages are fetched on the loop's thread and split into entries on the caller's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from bookie.wire import Columns

from .. import aio
from ..entry import Entry
from ..loop_thread import iterate
from ..reading.batch_read import entries_of
from .handle import BlockingHandle


class ReadHandle(BlockingHandle[aio.ReadHandle]):
    """A ledger opened for reading; see `ledgers.reading.read_handle.ReadHandle` for its guarantees.

    Iterators may be abandoned half-way. Every entry before an unreadable one is yielded before the
    error is raised.
    """

    @property
    def created_at(self) -> datetime | None:
        """When the ledger was created, in UTC, by its creator's clock; None if that is not recorded."""
        return self._handle.created_at

    @property
    def closed_at(self) -> datetime | None:
        """When it was closed, likewise; None also while it is open, as far as this reader has seen."""
        return self._handle.closed_at

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is final."""
        return self._handle.is_closed

    def read(self, first_entry: int = 0, last_entry: int | None = None) -> Iterator[Entry]:
        """Yields the entries first_entry … last_entry (to the last confirmed one by default), in order."""
        return _entries(self.pages(first_entry, last_entry))

    def __iter__(self) -> Iterator[Entry]:
        """Yields all that is confirmed: `for entry in reader` is `for entry in reader.read()`."""
        return self.read()

    def pages(self, first_entry: int = 0, last_entry: int | None = None) -> Iterator[Columns]:
        """Yields the same entries as `read` in columns, a page at a time: for bulk work."""
        return iterate(self._thread, self._handle.pages(first_entry, last_entry))

    def read_entry(self, entry_id: int) -> Entry:
        """Reads one entry."""
        return self._thread.run(self._handle.read_entry(entry_id))

    def read_batch(self, first_entry: int, *, entries_max: int, bytes_max: int) -> list[Entry]:
        """Reads entries from `first_entry` on, as many as both bounds allow, and at least one."""
        return self._thread.run(
            self._handle.read_batch(first_entry, entries_max=entries_max, bytes_max=bytes_max)
        )

    def read_unconfirmed(self, first_entry: int, last_entry: int) -> Iterator[Entry]:
        """Yields entries past the last confirmed one too; they may not be in the final ledger."""
        return _entries(self.read_unconfirmed_pages(first_entry, last_entry))

    def read_unconfirmed_pages(self, first_entry: int, last_entry: int) -> Iterator[Columns]:
        """Yields the same entries as `read_unconfirmed` in columns, a page at a time."""
        return iterate(self._thread, self._handle.read_unconfirmed_pages(first_entry, last_entry))

    def tail(self, start: int = 0, *, timeout: float | None = None) -> Iterator[Entry]:
        """Yields entries as they are confirmed, to the ledger's close or until `timeout` s bring none. Never fences."""
        return _entries(self.tail_pages(start, timeout=timeout))

    def tail_pages(self, start: int = 0, *, timeout: float | None = None) -> Iterator[Columns]:
        """Yields the same entries as `tail` in columns, a page at a time."""
        return iterate(self._thread, self._handle.tail_pages(start, timeout=timeout))

    def poll(
        self, start: int, *, timeout: float, entries_max: int = 1000, bytes_max: int = 1024 * 1024
    ) -> list[Entry]:
        """Waits for entries from `start` on; returns none after `timeout` s, or where the ledger has ended."""
        return self._thread.run(
            self._handle.poll(start, timeout=timeout, entries_max=entries_max, bytes_max=bytes_max)
        )

    def try_read_last_add_confirmed(self) -> int:
        """Reads the last-add-confirmed from the first bookie that answers; may lag."""
        return self._thread.run(self._handle.try_read_last_add_confirmed())

    def read_last_add_confirmed(self) -> int:
        """Reads the last-add-confirmed from so many bookies that nothing confirmed is missed."""
        return self._thread.run(self._handle.read_last_add_confirmed())

    def close(self) -> None:
        """Nothing to release: connections belong to the client."""


def _entries(pages: Iterator[Columns]) -> Iterator[Entry]:
    """Runs no Python code per entry."""
    return chain.from_iterable(map(entries_of, pages))
