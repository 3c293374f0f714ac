"""The blocking reader. Pages are fetched on the loop's thread and split into entries on the caller's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from .. import aio
from ..entry import Entry
from ..reading.batch_read import entries_of
from .handle import BlockingHandle
from .twin_calls import in_items, iterating, waiting_for


class ReadHandle(BlockingHandle[aio.ReadHandle]):
    """A ledger opened for reading. Created by `LedgerClient.open_ledger`; may be used from several threads.

    Never returns bytes whose digest, ledger id or entry id differ from those requested, and, except by
    `read_unconfirmed`, nothing past the last entry known to be confirmed. A bookie that is slow or down costs only time
    while another replica of the entry is available. Iterators may be dropped half-way, or closed: their resources are
    freed.
    """

    @property
    def created_at(self) -> datetime | None:
        """When the ledger was created, in UTC, by its creator's clock; None if that is not recorded."""
        return self._twin.created_at

    @property
    def closed_at(self) -> datetime | None:
        """When it was closed, in UTC, likewise; None also while it is open, as far as this reader has seen."""
        return self._twin.closed_at

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is final."""
        return self._twin.is_closed

    @property
    def length_bytes(self) -> int | None:
        """Payload bytes of the entries through `last_add_confirmed`; None if no bookie has reported them."""
        return self._twin.length_bytes

    @property
    def writer_address(self) -> str | None:
        """Host and port from which the ledger's writer last sent, as seen by a bookie that was asked for the
        last-add-confirmed; None if no bookie could report them, and for a closed ledger."""
        return self._twin.writer_address

    read = in_items(aio.ReadHandle.read, aio.ReadHandle.pages, entries_of)

    def __iter__(self) -> Iterator[Entry]:
        """Yields all confirmed entries: `for entry in reader` is `for entry in reader.read()`."""
        return self.read()

    pages = iterating(aio.ReadHandle.pages)
    read_entry = waiting_for(aio.ReadHandle.read_entry)
    read_batch = waiting_for(aio.ReadHandle.read_batch)
    read_unconfirmed = in_items(
        aio.ReadHandle.read_unconfirmed, aio.ReadHandle.read_unconfirmed_pages, entries_of
    )
    read_unconfirmed_pages = iterating(aio.ReadHandle.read_unconfirmed_pages)
    tail = in_items(aio.ReadHandle.tail, aio.ReadHandle.tail_pages, entries_of)
    tail_pages = iterating(aio.ReadHandle.tail_pages)
    poll = waiting_for(aio.ReadHandle.poll)
    try_read_last_add_confirmed = waiting_for(aio.ReadHandle.try_read_last_add_confirmed)
    read_last_add_confirmed = waiting_for(aio.ReadHandle.read_last_add_confirmed)

    def close(self) -> None:
        """Nothing to release: connections belong to the client."""
