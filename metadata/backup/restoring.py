"""Restores a backup into an empty store; writes the key that makes it a cluster last, so that it can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import IO

from .. import keys, settled_writes
from ..errors import BackupUnusable, KeyExists
from ..store import MetadataStore
from . import hold
from .file import Header, Item, read_header, read_items

AT_ONCE = 64
"""Concurrent writes."""


def check(file: IO[bytes], on_read: Callable[[int], object] = lambda _: None) -> tuple[Header, int]:
    """Verifies a backup in one pass; returns its header and number of keys. `on_read` is told of bytes read.

    Raises BackupUnusable.
    """
    header = read_header(file)
    count, has_layout, read_bytes = 0, False, 0
    for item in read_items(file):
        count, has_layout = count + 1, has_layout or item.key == keys.LAYOUT
        on_read(file.tell() - read_bytes)
        read_bytes = file.tell()
    if not has_layout:
        raise BackupUnusable("it has no cluster's layout. Take another one")
    return header, count


async def restore(
    store: MetadataStore, file: IO[bytes], now_ms: int, on_key: Callable[[int], None] = lambda _: None
) -> Header:
    """Writes the keys of a verified backup to a store without a cluster.

    Raises BackupUnusable where there is one, or something else under one of the keys, and MetadataError where the
    store fails: then there is no cluster yet, and the same file can be restored again.
    """
    header = read_header(file)
    if await store.get(keys.LAYOUT) is not None:
        raise BackupUnusable("there is a cluster here already; restore into a prefix or a file that is empty")
    await _check_is_empty_or_begun(store, header)
    await hold.begin(store, backup_ms=header.created_ms, now_ms=now_ms)
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
    return header


async def _check_is_empty_or_begun(store: MetadataStore, header: Header) -> None:
    begun = await hold.read(store)
    if begun is not None and begun.backup_ms != header.created_ms:
        raise BackupUnusable(
            "another backup was being restored here; finish that one, or take an empty prefix or file"
        )
    if begun is None and (await store.list_page("", limit=1)).items:
        raise BackupUnusable("there is something here already; restore into a prefix or a file that is empty")


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
        if found is None or found.value != item.value:
            raise BackupUnusable(
                f"there is another value under {item.key} already; restore into a prefix or a file that is empty"
            ) from None
