"""The reader of a ledger: reads ranges and batches, and tails a ledger that is still open."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Any, Self

from bookie.wire import Columns
from bookie.wire.credentials import Purpose
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import VersionedRecord

from ..cluster import Cluster
from ..entry import Entry, check_int, check_timeout
from ..errors import NoSuchEntry
from ..integrity.digest import Digester
from ..integrity.encryption import ENCRYPTION, Cipher, cipher_of
from ..integrity.ledger_keys import LedgerKey
from ..tasks import end_tasks
from . import lac_read
from .batch_read import entries_of, read_batch
from .ledger_view import LedgerView
from .page_fetch import PageFetcher
from .range_read import RangeRead

WAIT_SECONDS_MAX = 3600.0
"""Maximum length of a single wait; longer waits are split, because event loops differ in the timeouts they support."""


class ReadHandle:
    """A ledger opened for reading. Created by `LedgerClient.open_ledger`; belongs to its event loop.

    Never returns bytes whose digest, ledger id or entry id differs from what was requested, and, except in
    `read_unconfirmed`, nothing after the last entry known to be confirmed. A bookie that is slow or down costs only
    time while another replica of the entry is available. Iterators may be abandoned half-way, or closed: their
    resources are freed.
    """

    def __init__(
        self,
        cluster: Cluster,
        found: VersionedRecord,
        digester: Digester,
        key: LedgerKey,
        encryption_key: bytes | None = None,
    ) -> None:
        """Accepts a wrong encryption key, so that a ledger can still be recovered or followed: only its entries are
        unreadable."""
        self._encryption_key = encryption_key
        self._cipher: Cipher | None = None
        self._view = LedgerView(cluster, found, digester, partial(key.credential, Purpose.READ))
        self._pages = PageFetcher(self._view)
        self._range = RangeRead(self._view, self._pages)

    @property
    def ledger_id(self) -> int:
        """The permanent id of the ledger."""
        return self._view.ledger_id

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as this handle last read or wrote it."""
        return self._view.record

    @property
    def created_at(self) -> datetime | None:
        """When the ledger was created, in UTC, by its creator's clock; None if this is not recorded."""
        return self.record.created_at

    @property
    def closed_at(self) -> datetime | None:
        """When the ledger was closed, in UTC, by the clock of the client that closed it; None if this is not recorded,
        or if the ledger is still open as far as this reader knows."""
        return self.record.closed_at

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is final."""
        return self._view.is_closed

    @property
    def last_add_confirmed(self) -> int:
        """The last entry that this handle knows to be confirmed together with all entries before it; −1 if there is
        none."""
        return self._view.last_add_confirmed

    def is_confirmed(self, last_entry: int) -> None:
        """Accepts the caller's assurance that the entries through this one are confirmed."""
        self._view.note_lac(last_entry)

    @property
    def length_bytes(self) -> int | None:
        """Payload bytes of the entries through `last_add_confirmed`; None if no bookie has reported them."""
        return self._view.length_bytes

    @property
    def writer_address(self) -> str | None:
        """Host and port from which the ledger's writer last sent a message, as seen by a bookie that was asked for the
        last-add-confirmed; None for a closed ledger, or if no bookie could report them."""
        return None if self.is_closed else self._view.writer_address or None

    def __repr__(self) -> str:
        state = self.record.state.value.replace("_", " ")
        return (
            f"<ReadHandle of ledger {self.ledger_id}: {state}, confirmed through {self.last_add_confirmed}>"
        )

    # --- reading --------------------------------------------------------------------------------

    async def read(self, first_entry: int = 0, last_entry: int | None = None) -> AsyncGenerator[Entry, None]:
        """Yields the entries first_entry … last_entry (to the last confirmed one by default), in order.

        Raises NoSuchEntry for a range outside the confirmed entries, and EntryUnreadable or DigestMismatch if no
        replica has an entry, after yielding all before it. Reads ahead, but never more than `read_ahead_bytes_max`,
        whatever the entries' sizes.
        """
        async with aclosing(self.pages(first_entry, last_entry)) as pages:
            async for columns in pages:
                for entry in entries_of(columns):
                    yield entry

    def __aiter__(self) -> AsyncGenerator[Entry, None]:
        """Yields all confirmed entries: `async for entry in reader` is equivalent to `async for entry in
        reader.read()`."""
        return self.read()

    async def read_entry(self, entry_id: int) -> Entry:
        """Reads one entry. Raises as `read` does."""
        self._check_confirmed(entry_id, entry_id)
        return next(entries_of(self._opened(await self._pages.fetch(entry_id, entry_id))))

    async def read_batch(self, first_entry: int, *, entries_max: int, bytes_max: int) -> list[Entry]:
        """Reads confirmed entries from `first_entry` on without a gap, as many as both bounds allow, but at least one.

        `bytes_max` counts payloads; a larger entry is returned by itself. The batch is shorter if the last confirmed
        entry, or an unreadable one, ends the run. Raises ValueError for a bound below 1, and raises as `read` does if
        the first entry is unreadable.
        """
        if entries_max < 1 or bytes_max < 1:
            raise ValueError(
                f"a batch must allow at least 1 entry and 1 byte, not {entries_max} and {bytes_max}"
            )
        last = max(first_entry, min(self.last_add_confirmed, first_entry + entries_max - 1))
        self._check_confirmed(first_entry, last)
        return await read_batch(self._pages, self._opened, first_entry, last, bytes_max)

    async def read_unconfirmed(self, first_entry: int, last_entry: int) -> AsyncGenerator[Entry, None]:
        """Yields entries as bookies hold them, including those after the last confirmed one. Never fences.

        Entries after `last_add_confirmed` may not be in the final ledger: their append may still fail, and recovery may
        end the ledger before them, even if this reader has seen them. Raises NoSuchEntry for the first of these entries
        that every replica reports as absent, even after the end of a closed ledger; otherwise raises as `read` does.
        """
        async with aclosing(self.read_unconfirmed_pages(first_entry, last_entry)) as pages:
            async for columns in pages:
                for entry in entries_of(columns):
                    yield entry

    async def read_unconfirmed_pages(
        self, first_entry: int, last_entry: int
    ) -> AsyncGenerator[Columns, None]:
        """Yields the same entries as `read_unconfirmed`, a page at a time; see `pages`."""
        self._view.cluster.check_process()
        end = self.last_add_confirmed if self.is_closed else last_entry
        if not 0 <= first_entry <= last_entry <= end:
            raise NoSuchEntry(self.ledger_id, max(first_entry, end + 1), self.last_add_confirmed)
        async with aclosing(self._range.columns(first_entry, last_entry)) as pages:
            async for columns in pages:
                yield self._opened(columns)

    async def pages(
        self, first_entry: int = 0, last_entry: int | None = None
    ) -> AsyncGenerator[Columns, None]:
        """Yields the same entries as `read`, a verified page at a time: for bulk work without an object per entry.

        A page's `ids`, `offsets` (one more than ids) and `payload` are columns: entry `ids[n]` is
        `payload[offsets[n]:offsets[n + 1]]`. A page has about `page_bytes`, is never empty, and follows the previous
        page without a gap. Its payload may be a read-only view of the received bytes, which keeps them in memory.
        Raises as `read` does.
        """
        self._view.cluster.check_process()
        last = self.last_add_confirmed if last_entry is None else last_entry
        if last_entry is None and first_entry == last + 1:
            return  # there are no entries to read yet
        self._check_confirmed(first_entry, last)
        async with aclosing(self._range.columns(first_entry, last)) as pages:
            async for columns in pages:
                yield self._opened(columns)

    def _opened(self, columns: Columns) -> Columns:
        """Decrypts entries if the ledger is encrypted. Raises BadEncryptionKey or EntryUnreadable."""
        if ENCRYPTION not in self.record.custom_metadata:
            return columns
        if self._cipher is None:
            self._cipher = cipher_of(self.record, self._encryption_key)
        return columns if self._cipher is None else self._cipher.open(columns)

    def _check_confirmed(self, first_entry: int, last_entry: int) -> None:
        self._view.cluster.check_process()
        check_int("an entry id", first_entry)
        check_int("an entry id", last_entry)
        confirmed = self.last_add_confirmed
        if not 0 <= first_entry <= last_entry <= confirmed:
            wrong = last_entry if 0 <= first_entry <= last_entry else first_entry
            raise NoSuchEntry(self.ledger_id, wrong, confirmed)

    # --- following --------------------------------------------------------------------------------

    async def try_read_last_add_confirmed(self) -> int:
        """Reads the LAC from the first bookie that answers. May lag behind the writer; never fences.

        Raises NotEnoughAnswers if no bookie answers.
        """
        return await lac_read.ask_one(self._view)

    async def read_last_add_confirmed(self) -> int:
        """Reads the LAC from enough bookies that no confirmed entry can be missed.

        Raises NotEnoughAnswers if too few answer. Never fences.
        """
        return await lac_read.ask_every_write_set(self._view)

    async def tail(
        self, first_entry: int = 0, *, timeout: float | None = None
    ) -> AsyncGenerator[Entry, None]:
        """Yields entries from `first_entry` on as they are confirmed, across ensemble changes, until the ledger is
        closed.

        Also ends when no entry has been confirmed for `timeout` seconds; check `is_closed` to distinguish the two
        cases. A `timeout` of 0 checks once and does not wait. Never fences. Raises NoSuchLedger if the ledger is
        deleted in the meantime, NoSuchEntry if it was closed before it reached `first_entry`, and MetadataUnavailable
        when it can no longer be followed; otherwise raises as `read` does. In each case, all entries before that point
        have been yielded, and a new `tail` may resume from there.
        """
        async with aclosing(self.tail_pages(first_entry, timeout=timeout)) as pages:
            async for columns in pages:
                for entry in entries_of(columns):
                    yield entry

    async def tail_pages(
        self, first_entry: int = 0, *, timeout: float | None = None
    ) -> AsyncGenerator[Columns, None]:
        """Yields the same entries as `tail`, a page at a time; see `pages`."""
        following = self._follow()
        next_entry = first_entry
        try:
            while await self._until_confirmed(next_entry, following, timeout):
                async with aclosing(self.pages(next_entry)) as pages:
                    async for columns in pages:
                        next_entry = columns.last_entry + 1
                        yield columns
        finally:
            await end_tasks(following)

    async def poll(
        self, first_entry: int, *, timeout: float, entries_max: int = 1000, bytes_max: int = 1024 * 1024
    ) -> list[Entry]:
        """Waits for entries from `first_entry` on; returns as many as both bounds allow, or none after `timeout`
        seconds.

        Returns none at once if the ledger ends right before `first_entry`; check `is_closed` to distinguish the two
        cases. A `timeout` of 0 checks once and does not wait. Use this in a loop that does other work between calls.
        Raises as `tail` and `read_batch` do.
        """
        following = self._follow()
        try:
            if not await self._until_confirmed(first_entry, following, timeout):
                return []
        finally:
            await end_tasks(following)
        return await self.read_batch(first_entry, entries_max=entries_max, bytes_max=bytes_max)

    def _follow(self) -> tuple[asyncio.Task[None], ...]:
        """Starts the tasks that watch the record; the caller must end them.

        This is not a context manager: when an event loop ends, it closes all async generators at once, and nested ones
        twice.
        """
        self._view.cluster.check_process()
        return asyncio.create_task(self._view.follow()), asyncio.create_task(self._view.look())

    async def _until_confirmed(
        self, entry_id: int, following: Collection[asyncio.Task[None]], timeout: float | None
    ) -> bool:
        """Waits until the entry is confirmed and returns True; returns False when the ledger ends right before it or
        the time is up."""
        check_timeout(timeout)
        now = asyncio.get_running_loop().time
        until = math.inf if timeout is None else now() + timeout
        if timeout == 0 and entry_id > self.last_add_confirmed and not self.is_closed:
            await self._view.refresh()
            await self.try_read_last_add_confirmed()
        while True:
            self._view.changed.clear()
            if entry_id <= self.last_add_confirmed:
                return True
            if self.is_closed and entry_id > self.last_add_confirmed + 1:
                raise NoSuchEntry(self.ledger_id, entry_id, self.last_add_confirmed)
            if self.is_closed or now() >= until:
                return False
            await self._wait_for_more(following, until - now())

    async def _wait_for_more(self, following: Collection[asyncio.Task[None]], seconds: float) -> None:
        """Waits until more entries are confirmed, the record changes, or some time has passed."""
        changed = asyncio.create_task(self._view.changed.wait())
        asking = asyncio.create_task(lac_read.wait_for_news(self._view))
        waiting: tuple[asyncio.Task[Any], ...] = (changed, asking, *following)
        try:
            done, _ = await asyncio.wait(
                waiting, return_when=asyncio.FIRST_COMPLETED, timeout=min(seconds, WAIT_SECONDS_MAX)
            )
            for task in done:
                task.result()
        finally:
            await end_tasks([changed, asking])

    async def close(self) -> None:
        """Does nothing, because connections belong to the client."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
