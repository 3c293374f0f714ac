"""Restores a backup into an empty store. The `layout` key, without which a store contains no cluster, is written last,
so that a failed restore can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO

from .. import keys, settled_writes
from ..errors import BackupUnusable, KeyConflict, KeyExists
from ..store import MetadataStore, list_all
from . import hold
from .backup_file import Header, Item, read_header, read_items

AT_ONCE = 64
"""Number of concurrent writes."""

PROCESSES = (keys.BOOKIES, keys.JOURNAL_NODES)
"""Prefixes of keys that processes hold while they run."""

NOTED = (keys.RESTORED, keys.NEXT_LEDGER_ID, keys.AUDITOR)
NOTED_BELOW = (keys.MISFITS, keys.LIVES, keys.ABSENT, keys.UNDERREPLICATED, keys.HEALING, keys.MOVES)
"""Keys, and prefixes of keys, that running bookies write even into a store from which the cluster has been lost."""


def check(file: IO[bytes], on_read: Callable[[int], object] = lambda _: None) -> tuple[Header, int]:
    """Verifies a backup in one pass; returns its header and its number of keys. `on_read` is called with the number of
    bytes read.

    Raises BackupUnusable.
    """
    header = read_header(file)
    count, has_layout, read_bytes = 0, False, 0
    for item in read_items(file):
        count, has_layout = count + 1, has_layout or item.key == keys.LAYOUT
        on_read(file.tell() - read_bytes)
        read_bytes = file.tell()
    if not has_layout:
        raise BackupUnusable("it does not contain a cluster's layout. Use another backup")
    return header, count


async def restore(
    store: MetadataStore, file: IO[bytes], now_ms: int, on_key: Callable[[int], None] = lambda _: None
) -> Header:
    """Writes the keys of a verified backup to a store without a cluster.

    If the store was emptied while bookies were running, the notes that they have written since then are deleted. Raises
    BackupUnusable if there is a cluster, a registered process or any other key; and MetadataError if the store fails.
    After a MetadataError there is no cluster yet, and the same file can be restored again.
    """
    header = read_header(file)
    if await store.get(keys.LAYOUT) is not None:
        raise BackupUnusable("there is already a cluster here; restore into an empty prefix or file")
    await _begin(store, header.created_ms, now_ms)
    await _put_all(store, file, on_key)
    return header


async def check_may_be_rebuilt(store: MetadataStore) -> None:
    """Raises BackupUnusable if there is a cluster, a partly restored backup, or any other key that was not written by a
    bookie."""
    if await store.get(keys.LAYOUT) is not None:
        raise BackupUnusable(
            "there is a cluster here; metadata is only rebuilt if it was lost, in an empty prefix or file"
        )
    begun = await hold.read(store)
    if begun is not None and begun.is_rebuilt:
        return  # an earlier rebuild was not completed
    if begun is not None and begun.backup_ms:
        raise BackupUnusable(begun.why_no_cluster)
    async for item in list_all(store, ""):
        if not item.key.startswith(PROCESSES):
            _check_is_note(item.key)


async def put_rebuilt(
    store: MetadataStore, file: IO[bytes], now_ms: int, on_key: Callable[[int], None] = lambda _: None
) -> None:
    """Writes the rebuilt keys of a cluster to a store without one. The cluster's bookies may keep running.

    Replaces the keys of an earlier attempt. Raises BackupUnusable, and MetadataError if the store fails. After a
    MetadataError there is no cluster yet, and the rebuild can be repeated.
    """
    await check_may_be_rebuilt(store)
    backup_ms = read_header(file).created_ms
    await hold.begin(store, backup_ms=0, now_ms=now_ms)
    begun = await hold.read(store)
    if begun is None:
        raise BackupUnusable("another client is writing here: stop it, and try again")
    await hold.begin_again(store, backup_ms=backup_ms, now_ms=now_ms, version=begun.version, is_rebuilt=True)
    async for item in list_all(store, ""):
        if item.key != keys.RESTORED and not item.key.startswith((*PROCESSES, keys.LIVES)):
            await settled_writes.delete_unless_changed(store, item.key, item.version)
    await _put_all(store, file, on_key)


async def _put_all(store: MetadataStore, file: IO[bytes], on_key: Callable[[int], None]) -> None:
    """Writes all keys of a file; the `layout` key, without which the store contains no cluster, is written last."""
    last: list[Item] = []
    batch: list[Item] = []
    for item in read_items(file):
        (last if item.key == keys.LAYOUT else batch).append(item)
        if len(batch) == AT_ONCE:
            await _put(store, batch)
            on_key(len(batch))
            batch = []
    await _put(store, batch)
    await _put(store, last)
    on_key(len(batch) + len(last))


async def _begin(store: MetadataStore, backup_ms: int, now_ms: int) -> None:
    """Sets the hold in a store that is empty, contains only notes of bookies, or has an unfinished restore."""
    begun = await hold.read(store)
    if begun is not None and begun.backup_ms == backup_ms:
        return await _check_nobody_runs(store)
    if begun is not None and begun.backup_ms:
        raise BackupUnusable(
            "another backup was being restored here; finish that one, or use an empty prefix or file"
        )
    await _clear_notes(store)
    with suppress(KeyConflict):  # the value written by another process is read below
        if begun is None:
            await hold.begin(store, backup_ms=backup_ms, now_ms=now_ms)
        else:
            await hold.begin_again(store, backup_ms=backup_ms, now_ms=now_ms, version=begun.version)
    if (now := await hold.read(store)) is None or now.backup_ms != backup_ms:
        raise BackupUnusable(
            "bookies wrote here during the restore: stop all of them first, and restore the backup again"
        )


async def _clear_notes(store: MetadataStore) -> None:
    """Deletes the notes, except the hold, that bookies wrote into a store from which the cluster had been lost.

    Raises BackupUnusable, without changing anything, if processes are registered or if any key is not such a note.
    """
    noted = []
    async for item in list_all(store, ""):
        _check_is_note(item.key)
        noted.append(item)
    for item in noted:
        if item.key != keys.RESTORED:
            await settled_writes.delete_unless_changed(store, item.key, item.version)


async def _check_nobody_runs(store: MetadataStore) -> None:
    for prefix in PROCESSES:
        for item in (await store.list_page(prefix, limit=1)).items:
            raise _is_running(item.key)


def _is_running(key: str) -> BackupUnusable:
    return BackupUnusable(
        f"bookies or journal nodes are registered here ({key}): stop all of them first; one that was killed stays "
        "registered until its lease has run out"
    )


def _check_is_note(key: str) -> None:
    if key.startswith(PROCESSES):
        raise _is_running(key)
    if key not in NOTED and not key.startswith(NOTED_BELOW):
        raise BackupUnusable(f"there is already something here ({key}); restore into an empty prefix or file")


async def _put(store: MetadataStore, items: Iterable[Item]) -> None:
    outcomes = await asyncio.gather(*(_put_one(store, item) for item in items), return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


async def _put_one(store: MetadataStore, item: Item) -> None:
    try:
        await settled_writes.create(store, item.key, item.value)
    except KeyExists:
        found = await store.get(item.key)
        if found is not None and item.key.startswith(keys.LIVES):
            return  # written by a bookie that had been hanging: its value is newer than the backup's
        if found is None or found.value != item.value:
            raise BackupUnusable(
                f"there is already another value under {item.key}; restore into an empty prefix or file"
            ) from None
