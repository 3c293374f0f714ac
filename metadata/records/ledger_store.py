"""Ledger records in a metadata store: read, create, change by compare-and-swap, list, watch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace

from .. import keys, settle
from ..errors import BadRecord, KeyExists, MetadataRestored
from ..store import EventKind, MetadataStore, list_all
from . import ledger_codec
from .ledger_record import LedgerRecord
from .unreadable import OnUnreadable, skip


@dataclass(frozen=True, slots=True)
class VersionedRecord:
    """A ledger's record and the version a change must name."""

    record: LedgerRecord
    version: int


class LedgerStore:
    """The ledgers of a cluster. Every change is one compare-and-swap with a nonce (rule M1)."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self, ledger_id: int) -> VersionedRecord | None:
        """The latest record, or None where there is no such ledger."""
        key = keys.ledger(ledger_id)
        found = await self._store.get(key)
        return None if found is None else _versioned(key, found.value, found.version)

    async def create(self, record: LedgerRecord) -> VersionedRecord:
        """Stores a new ledger. Raises KeyExists when the id is taken, or was by a ledger now deleted.

        Raises MetadataRestored while nobody has accepted a backup: bookies may hold entries under this id.
        """
        mine = replace(record, nonce=settle.new_nonce())
        key, value = keys.ledger(record.ledger_id), ledger_codec.encode(mine)
        try:
            version = await settle.create(self._store, key, value, unless=keys.RESTORED)
        except KeyExists as taken:
            if taken.key == keys.RESTORED:
                raise MetadataRestored from taken
            raise
        return VersionedRecord(mine, version)

    async def change(self, record: LedgerRecord, version: int) -> VersionedRecord:
        """Replaces the record that stands at `version`. Raises VersionConflict or NoSuchKey: read again."""
        mine = replace(record, nonce=settle.new_nonce())
        key = keys.ledger(record.ledger_id)
        return VersionedRecord(
            mine, await settle.replace(self._store, key, ledger_codec.encode(mine), version)
        )

    async def delete(self, found: VersionedRecord) -> None:
        """Forgets the ledger as it was found; bookies drop its entries later.

        Raises VersionConflict where it has changed since. A tombstone of a few bytes stays, for ever: without
        it a new ledger of that id would show the old one's entries, and the creation itself, tried twice
        because an answer was lost, could come true once more after the deletion.
        """
        tombstone = ledger_codec.encode_tombstone(settle.new_nonce())
        await settle.replace(self._store, keys.ledger(found.record.ledger_id), tombstone, found.version)

    async def is_deleted(self, ledger_id: int) -> bool:
        """Whether a tombstone says so. An id that the store has never heard of is no deleted ledger."""
        key = keys.ledger(ledger_id)
        found = await self._store.get(key)
        return found is not None and _versioned(key, found.value, found.version) is None

    async def list(
        self, first_ledger: int = 0, *, on_unreadable: OnUnreadable = skip
    ) -> AsyncIterator[VersionedRecord]:
        """Every ledger from `first_ledger` on, by id. A listing that fails part-way raises; it never just ends.

        `on_unreadable` is told of each record that cannot be decoded, and may raise; then the next one follows.
        """
        async for _, found in self.list_with_deleted(first_ledger, on_unreadable=on_unreadable):
            if found is not None:
                yield found

    async def list_with_deleted(
        self, first_ledger: int = 0, *, on_unreadable: OnUnreadable = skip
    ) -> AsyncIterator[tuple[int, VersionedRecord | None]]:
        """Every ledger that there is or was, in id order, None for a deleted one. It never just ends either."""
        if first_ledger > keys.LEDGER_ID_MAX:
            return
        after = keys.ledger(first_ledger - 1) if first_ledger > 0 else None
        async for item in list_all(self._store, keys.LEDGERS, after=after):
            try:
                one = keys.ledger_id_of(item.key), _versioned(item.key, item.value, item.version)
            except BadRecord as error:
                on_unreadable(error)
                continue
            yield one

    async def watch(
        self, ledger_id: int, *, after_revision: int
    ) -> AsyncGenerator[VersionedRecord | None, None]:
        """Every later version of one ledger's record; None when it is deleted."""
        key = keys.ledger(ledger_id)
        async with aclosing(self._store.watch(key, after_revision=after_revision)) as events:
            async for event in events:
                if event.kind is EventKind.DELETE:
                    yield None
                else:
                    yield _versioned(key, event.value, event.revision)


def _versioned(key: str, value: bytes, version: int) -> VersionedRecord | None:
    record = ledger_codec.decode(key, value)
    return None if record is None else VersionedRecord(record, version)
