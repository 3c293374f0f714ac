"""Turns columns into entries, and reads a bounded batch of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from struct import Struct
from typing import cast

from bookie.wire import Columns

from ..entry import Entry
from ..errors import EntryUnreadable
from .page_fetch import PageFetcher

_entry = cast("Callable[[Iterable[object]], Entry]", partial(tuple.__new__, Entry))
"""Creates an Entry without running Python code; every entry that is read is created by this function."""


def entries_of(columns: Columns) -> Iterator[Entry]:
    """Yields the entries with copies of their payloads, so that they do not keep pages in memory."""
    payloads = Struct("".join(map("{}s".format, columns.sizes))).unpack(columns.payload)
    return map(_entry, zip(columns.ids, payloads, strict=True))


async def read_batch(
    pages: PageFetcher,
    opened: Callable[[Columns], Columns],
    first_entry: int,
    last_entry: int,
    bytes_max: int,
) -> list[Entry]:
    """Reads the entries first_entry … last_entry, up to `bytes_max` in total, but at least the first. `opened` decrypts
    pages.

    Ends before the first unreadable entry; if that is `first_entry`, raises as `PageFetcher.fetch` does.
    """
    batch: list[Entry] = []
    left_bytes = bytes_max
    while first_entry + len(batch) <= last_entry and left_bytes > 0:
        try:
            page = opened(await pages.fetch(first_entry + len(batch), last_entry, left_bytes))
        except EntryUnreadable:
            if not batch:
                raise
            return batch  # the next read, which begins at the unreadable entry, raises
        for entry in entries_of(page):
            left_bytes -= len(entry.payload)
            if left_bytes < 0 and batch:
                return batch
            batch.append(entry)
    return batch
