"""Stores ledger records: reads, creates, lists and watches them, and changes them by compare-and-swap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from .. import keys, settled_writes
from ..errors import BadRecord
from ..store import PAGE_KEYS_MAX, EventKind, MetadataStore, list_all
from ..version import Version
from . import ledger_codec
from .cold import removals
from .ledger_record import LedgerRecord, Tombstone
from .record_decoding import OnUnreadable, skip

SPREAD_MAX = 4
"""`look_up` lists the whole range from the lowest to the highest given id if the range contains at most this many ids
per given id."""


@dataclass(frozen=True, slots=True)
class VersionedRecord:
    """A ledger's record, and the version that a change must specify."""

    record: LedgerRecord
    version: Version

    @property
    def ledger_id(self) -> int:
        return self.record.ledger_id

    @property
    def identity(self) -> bytes:
        return self.record.identity


class LedgerStore:
    """The ledgers of a cluster. Every change is one compare-and-swap with a nonce (rule M1)."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store

    async def read(self, ledger_id: int) -> VersionedRecord | None:
        """Reads the latest record; None if there is no such ledger."""
        key = keys.ledger(ledger_id)
        found = await self.store.get(key)
        return None if found is None else _alive(decoded(key, found.value, found.version))

    async def read_again(self, record: LedgerRecord) -> VersionedRecord | None:
        """Reads the latest record if it has the same identity. Returns None otherwise: the ledger was deleted, or the
        store has reverted to an older copy and the id belongs to another ledger (rule W8)."""
        found = await self.read(record.ledger_id)
        return found if found is not None and found.identity == record.identity else None

    async def create(self, record: LedgerRecord, *, while_held: bool = False) -> VersionedRecord:
        """Creates a ledger. Raises KeyExists if the id belongs to an existing or a deleted ledger.

        Raises MetadataRestored until an operator accepts restored metadata, because bookies may hold entries under this
        id. With `while_held`, creates the ledger nevertheless, because its record describes those entries.
        """
        mine = replace(record, nonce=settled_writes.new_nonce())
        key, value = keys.ledger(record.ledger_id), ledger_codec.encode(mine)
        unless = None if while_held else keys.RESTORED
        return VersionedRecord(mine, await settled_writes.create(self.store, key, value, unless=unless))

    async def change(
        self, record: LedgerRecord, version: Version, *, unless_held: bool = False
    ) -> VersionedRecord:
        """Replaces the record at `version`. Raises KeyConflict: read again.

        With `unless_held` raises MetadataRestored, and changes nothing, until an operator accepts metadata that has
        reverted to an older copy.
        """
        mine = replace(record, nonce=settled_writes.new_nonce())
        unless = keys.RESTORED if unless_held else None
        key, value = keys.ledger(record.ledger_id), ledger_codec.encode(mine)
        return VersionedRecord(
            mine, await settled_writes.replace(self.store, key, value, version, unless=unless)
        )

    async def delete(self, found: VersionedRecord, *, unless_held: bool = False) -> None:
        """Replaces the record with a tombstone; bookies drop the ledger's entries later.

        Raises VersionConflict if the record has changed since. With `unless_held`, raises MetadataRestored as `change`
        does. The tombstone, which takes a few bytes, permits bookies
        to drop the ledger, and is kept until all have done so. Without it, a new ledger with that id would show the old
        ledger's entries. Also, a creation that was retried because an answer was lost could succeed again after the
        deletion.
        """
        was = found.record
        if was.cold is not None:
            await removals.add(self.store, was.ledger_id, was.cold)
        nonce = settled_writes.new_nonce()
        tombstone = ledger_codec.encode_tombstone(nonce, was.identity, is_of_log=was.is_of_log)
        key, unless = keys.ledger(was.ledger_id), keys.RESTORED if unless_held else None
        await settled_writes.replace(self.store, key, tombstone, found.version, unless=unless)

    async def tombstone(self, ledger_id: int) -> Tombstone | None:
        """Reads a deleted ledger's tombstone; returns None if the ledger exists, or if the store has no key for this
        id."""
        key = keys.ledger(ledger_id)
        found = await self.store.get(key)
        one = None if found is None else decoded(key, found.value, found.version)
        return one if isinstance(one, Tombstone) else None

    async def list(
        self, first_ledger: int = 0, *, on_unreadable: OnUnreadable = skip
    ) -> AsyncIterator[VersionedRecord]:
        """Yields every ledger from `first_ledger` on, in order of id. A listing that fails part-way raises an error; it
        is never silently cut short.

        Calls `on_unreadable`, which may raise, for each record that cannot be decoded, and continues with the next.
        """
        async for found in self.list_with_deleted(first_ledger, on_unreadable=on_unreadable):
            if isinstance(found, VersionedRecord):
                yield found

    async def look_up(
        self, ledger_ids: Sequence[int], *, on_unreadable: OnUnreadable = skip
    ) -> AsyncIterator[VersionedRecord | Tombstone]:
        """Yields the records and tombstones of these ledgers in ascending order; the ids must be given in that order.

        Lists a whole range of ids if many of them are wanted; otherwise reads each ledger separately.
        """
        for first in range(0, len(ledger_ids), PAGE_KEYS_MAX):
            some = ledger_ids[first : first + PAGE_KEYS_MAX]
            if some[-1] - some[0] < SPREAD_MAX * len(some):
                wanted, limit = set(some), min(some[-1] - some[0] + 1, PAGE_KEYS_MAX)
                listing = self.list_with_deleted(some[0], limit=limit, on_unreadable=on_unreadable)
                async for listed in listing:
                    if listed.ledger_id > some[-1]:
                        break
                    if listed.ledger_id in wanted:
                        yield listed
            else:
                for item in filter(None, await asyncio.gather(*map(self.store.get, map(keys.ledger, some)))):
                    try:
                        yield decoded(item.key, item.value, item.version)
                    except BadRecord as error:
                        on_unreadable(error)

    async def list_with_deleted(
        self, first_ledger: int = 0, *, limit: int = PAGE_KEYS_MAX, on_unreadable: OnUnreadable = skip
    ) -> AsyncIterator[VersionedRecord | Tombstone]:
        """Yields every ledger and tombstone, in order of id. A listing that fails part-way raises an error."""
        if first_ledger > keys.LEDGER_ID_MAX:
            return
        after = keys.ledger(first_ledger - 1) if first_ledger > 0 else None
        async for item in list_all(self.store, keys.LEDGERS, after=after, limit=limit):
            try:
                one = decoded(item.key, item.value, item.version)
            except BadRecord as error:
                on_unreadable(error)
                continue
            yield one

    async def watch(
        self, ledger_id: int, *, after_revision: int
    ) -> AsyncGenerator[VersionedRecord | None, None]:
        """Yields every later version of one ledger's record; None when it is deleted."""
        key = keys.ledger(ledger_id)
        async with aclosing(self.store.watch(key, after_revision=after_revision)) as events:
            async for event in events:
                if event.kind is EventKind.DELETE:
                    yield None
                else:
                    yield _alive(decoded(key, event.value, event.version))


def decoded(key: str, value: bytes, version: Version) -> VersionedRecord | Tombstone:
    """Returns the record or tombstone under a ledger's key. Raises BadRecord."""
    found = ledger_codec.decode(key, value)
    if isinstance(found, Tombstone):
        return replace(found, version=version)
    return VersionedRecord(found, version)


def _alive(found: VersionedRecord | Tombstone) -> VersionedRecord | None:
    return found if isinstance(found, VersionedRecord) else None
