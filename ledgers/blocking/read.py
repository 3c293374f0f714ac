"""The blocking reader. Pages are fetched on the loop's thread and split into entries on the caller's."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime

from bookie.wire import Columns

from .. import aio
from ..entry import Entry
from ..loop_thread import iterate
from ..reading.batch_read import entries_of
from .handle import BlockingHandle
from .paged_iterator import PagedIterator


class ReadHandle(BlockingHandle[aio.ReadHandle]):
    """A ledger opened for reading. Made by `LedgerClient.open_ledger`; may be used from several threads.

    Never returns bytes whose digest, ledger id or entry id differ from what was asked, and nothing
    past the last entry known to be confirmed, `read_unconfirmed` apart. A bookie that is slow or
    down costs only time while another replica of the entry is there. Iterators may be dropped half-way, or closed
    (`contextlib.closing`): what they hold is freed at once.
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

    @property
    def length_bytes(self) -> int | None:
        """Payload bytes of the entries through `last_add_confirmed`; None where no bookie has told."""
        return self._handle.length_bytes

    @property
    def writer_address(self) -> str | None:
        """Host and port from which the ledger's writer sent last, as a bookie saw it when it was asked for the
        last-add-confirmed; None where none could tell, and for a closed ledger."""
        return self._handle.writer_address

    def read(self, first_entry: int = 0, last_entry: int | None = None) -> PagedIterator[Entry]:
        """Yields the entries first_entry … last_entry (to the last confirmed one by default), in order.

        Raises NoSuchEntry for a range outside what is confirmed, EntryUnreadable or DigestMismatch
        when no replica has an entry, after yielding all before it. Reads ahead, but never more
        than `read_ahead_bytes_max`, whatever the entries' sizes.
        """
        return _entries(self.pages(first_entry, last_entry))

    def __iter__(self) -> Iterator[Entry]:
        """Yields all that is confirmed: `for entry in reader` is `for entry in reader.read()`."""
        return self.read()

    def pages(self, first_entry: int = 0, last_entry: int | None = None) -> Generator[Columns, None, None]:
        """Yields the same entries as `read`, a verified page at a time: for bulk work without an object per entry.

        A page's `ids`, `offsets` (one more than ids) and `payload` are columns: entry `ids[n]` is
        `payload[offsets[n]:offsets[n + 1]]`. A page is of about `page_bytes`, never empty, and follows the one before
        without a gap. Its payload may be a read-only view of what was received, and keeps that alive. Raises as `read`.
        """
        return iterate(self._thread, self._handle.pages(first_entry, last_entry))

    def read_entry(self, entry_id: int) -> Entry:
        """Reads one entry. Raises as `read` does."""
        return self._thread.run(self._handle.read_entry(entry_id))

    def read_batch(self, first_entry: int, *, entries_max: int, bytes_max: int) -> list[Entry]:
        """Reads confirmed entries from `first_entry` on without a gap, as many as both bounds allow, and at least one.

        `bytes_max` counts payloads; a larger entry comes alone. Shorter if the last
        confirmed entry, or an unreadable one, ends the run. Raises ValueError for a bound
        below 1, and as `read` does when the first entry is unreadable.
        """
        return self._thread.run(
            self._handle.read_batch(first_entry, entries_max=entries_max, bytes_max=bytes_max)
        )

    def read_unconfirmed(self, first_entry: int, last_entry: int) -> PagedIterator[Entry]:
        """Yields entries as bookies hold them, past the last confirmed one too. Never fences.

        Entries past `last_add_confirmed` may not be in the final ledger: their append may still fail,
        and recovery may end the ledger before them, even if this reader has seen them. Raises NoSuchEntry for
        the first such entry that every replica says it does not have, also past the end of a
        closed ledger; else as `read` does.
        """
        return _entries(self.read_unconfirmed_pages(first_entry, last_entry))

    def read_unconfirmed_pages(self, first_entry: int, last_entry: int) -> Generator[Columns, None, None]:
        """Yields the same entries as `read_unconfirmed`, a page at a time; see `pages`."""
        return iterate(self._thread, self._handle.read_unconfirmed_pages(first_entry, last_entry))

    def tail(self, first_entry: int = 0, *, timeout: float | None = None) -> PagedIterator[Entry]:
        """Yields entries from `first_entry` on as they are confirmed, across ensemble changes, to the ledger's close.

        Also ends once nothing new was confirmed for `timeout` seconds: `is_closed` tells. A `timeout` of 0
        asks once, and does not wait. Never fences. Raises NoSuchLedger when the ledger is deleted meanwhile,
        NoSuchEntry if it was closed before it reached `first_entry`, MetadataUnavailable when it can no longer be
        followed, and as `read` does; then everything before has been yielded, and a new `tail` may resume there.
        """
        return _entries(self.tail_pages(first_entry, timeout=timeout))

    def tail_pages(
        self, first_entry: int = 0, *, timeout: float | None = None
    ) -> Generator[Columns, None, None]:
        """Yields the same entries as `tail`, a page at a time; see `pages`."""
        return iterate(self._thread, self._handle.tail_pages(first_entry, timeout=timeout))

    def poll(
        self, first_entry: int, *, timeout: float, entries_max: int = 1000, bytes_max: int = 1024 * 1024
    ) -> list[Entry]:
        """Waits for entries from `first_entry` on; returns as many as both bounds allow, none after `timeout` seconds.

        Returns none at once if the ledger ends right before `first_entry`: `is_closed` tells. A `timeout` of 0 asks
        once, and does not wait. For loops that do other things in between; raises as `tail` and `read_batch` do.
        """
        return self._thread.run(
            self._handle.poll(first_entry, timeout=timeout, entries_max=entries_max, bytes_max=bytes_max)
        )

    def try_read_last_add_confirmed(self) -> int:
        """Reads the LAC from the first bookie that answers. May lag behind the writer; never fences.

        Raises LedgerError when no bookie answers.
        """
        return self._thread.run(self._handle.try_read_last_add_confirmed())

    def read_last_add_confirmed(self) -> int:
        """Reads the LAC from so many bookies that no confirmed entry is missed.

        Raises NotEnoughAnswers when too few answer. Never fences.
        """
        return self._thread.run(self._handle.read_last_add_confirmed())

    def close(self) -> None:
        """Nothing to release: connections belong to the client."""


def _entries(pages: Generator[Columns, None, None]) -> PagedIterator[Entry]:
    return PagedIterator.over(pages, entries_of)
