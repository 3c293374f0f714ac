"""The records of all ledgers, kept current by one listing and a watch, so that the auditor reads everything only once.

The records may be slightly outdated. A caller that changes something based on a record must make the change conditional
on the record's version, or read the record again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from metadata import keys
from metadata.counting.outage import weight
from metadata.errors import BadRecord, MetadataError
from metadata.records.cluster import revision_of
from metadata.records.ledger_record import Tombstone
from metadata.records.ledger_store import VersionedRecord, decoded
from metadata.records.record_decoding import decode_or_skip, skip
from metadata.store import EventKind, MetadataStore, list_all
from metadata.version import Version

from ..polling import LOOK_SECONDS

log = logging.getLogger(__name__)


class WatchedLedgers:
    """The records of all ledgers, taking about 350 bytes of memory each while started. Belongs to the event loop."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._task: asyncio.Task[None] | None = None
        self._found: dict[int, tuple[bytes, int]] = {}
        self.is_whole = False
        """Whether the listing is complete, so that all ledgers are here, except for the latest changes."""
        self.has_changed = False
        """Whether anything has changed since this was set to False."""

    @property
    def is_started(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        """Lists all ledgers, and watches them. May be called again; raises the error that ended the watch, if any."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Stops the watch, and forgets all records."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._task, self._found, self.is_whole = None, {}, False

    async def list_with_deleted(self) -> AsyncGenerator[VersionedRecord | Tombstone, None]:
        """Yields every ledger and tombstone, in order of id, like `LedgerStore.list_with_deleted`."""
        for ledger_id in sorted(self._found):
            value, revision = self._found.get(ledger_id, (b"", 0))
            if revision:  # otherwise the ledger's tombstone was retired in the meantime
                found = decode_or_skip(
                    partial(decoded, version=Version(revision, value)), keys.ledger(ledger_id), value
                )
                if found is not None:
                    yield found

    async def _run(self) -> None:
        while True:
            # Each attempt lists all ledgers, because the watch may have missed changes that the store no longer has.
            try:
                await self._follow()
            except MetadataError as error:
                log.log(weight(error), "the auditor has to list the records of all ledgers again: %s", error)
            self.is_whole = False
            await asyncio.sleep(LOOK_SECONDS)

    async def _follow(self) -> None:
        revision, self._found = await revision_of(self._store), {}
        async for item in list_all(self._store, keys.LEDGERS):
            self._take(item.key, item.value, item.revision)
        self.is_whole = self.has_changed = True
        async with aclosing(self._store.watch(keys.LEDGERS, after_revision=revision)) as events:
            async for event in events:
                gone = event.kind is EventKind.DELETE
                self._take(event.key, b"" if gone else event.value, event.revision)

    def _take(self, key: str, value: bytes, revision: int) -> None:
        try:
            ledger_id = keys.ledger_id_of(key)
        except BadRecord as error:
            return skip(error)
        if revision <= self._found.get(ledger_id, (b"", 0))[1]:
            return None  # the listing included this change
        self.has_changed = True
        if value:
            self._found[ledger_id] = value, revision
        else:
            self._found.pop(ledger_id, None)
