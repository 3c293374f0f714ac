"""Reads all of a cluster's metadata for a consistent backup, while the cluster is in use.

Ledger records are independent of each other, so they may be read at different moments. The records of journals and logs
name their ledgers, so they are read both before and after the ledgers. If any of them has changed in between,
everything is read again. The id counter is read last, so that it is above the id of every ledger.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import Protocol

from .. import keys
from ..errors import BackupUnusable
from ..store import MetadataStore, list_all
from .backup_file import BackupWriter, Item

NAMING_LEDGERS = (
    keys.JOURNALS,
    keys.LOGS,
    keys.LOG_NAMES,
    keys.LOG_PAGES,
    keys.LOG_TIMES,
    keys.LOG_PRODUCERS,
)
"""Prefixes of records that name ledgers, and of records that belong to such records. They must not change during a
backup."""

KEPT = (
    keys.COOKIES,
    keys.DECOMMISSIONED,
    keys.LIVES,
    keys.ORDERS,
    keys.ELECTIONS,
    keys.CURSORS,
    keys.LOG_SETS,
    keys.COLD_REMOVALS,
)
"""Prefixes that are saved in addition to ledgers and the records that name them. Elections are read after logs, so that
no log has a later term than its election."""

NOT_KEPT = (
    keys.BOOKIES,
    keys.COLLECTED,
    keys.UNDERREPLICATED,
    keys.HEALING,
    keys.ABSENT,
    keys.MOVES,
    keys.AUDITOR,
    keys.RESTORED,
    keys.ACCEPTED,
    keys.MISFITS,
    keys.JOURNAL_NODES,
    keys.CANDIDATES,
    keys.LOG_SHARES,
    keys.SILENCES,
    keys.OFFLOADER,
)
"""Prefixes that are not saved, because running processes write these keys again."""

TRIES_MAX = 10


async def save(
    store: MetadataStore, file: BackupWriter, on_key: Callable[[int], object] = lambda _: None
) -> bool:
    """Writes all keys that a cluster needs. Returns False if journals or logs changed while they were being saved; the
    caller should try again. `on_key` is called with the number of keys written.

    Raises MetadataError.
    """

    def add(item: Item) -> None:
        file.add(item)
        on_key(1)

    before = sha256()
    for prefix in NAMING_LEDGERS:
        async for item in _all(store, prefix):
            _count(before, item)
            add(item)
    async for item in _all(store, keys.LEDGERS):
        add(item)
    after = sha256()
    for prefix in NAMING_LEDGERS:
        async for item in _all(store, prefix):
            _count(after, item)
    if after.digest() != before.digest():
        return False
    for prefix in KEPT:
        async for item in _all(store, prefix):
            add(item)
    for key in (keys.RETIRED_IDS, keys.NEXT_LEDGER_ID, keys.LAYOUT):
        found = await store.get(key)
        if found is not None:
            add(Item(key, found.value))
        elif key == keys.LAYOUT:
            raise BackupUnusable("the cluster's layout was deleted during the backup")
    return True


async def _all(store: MetadataStore, prefix: str) -> AsyncIterator[Item]:
    async for found in list_all(store, prefix):
        yield Item(found.key, found.value)


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def _count(total: _Digest, item: Item) -> None:
    total.update(f"{len(item.key)} {len(item.value)} {item.key}".encode())
    total.update(item.value)
