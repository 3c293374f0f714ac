"""Columns as entries, and a bounded run of them in one answer."""

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
"""Nothing of it is Python: every entry that anybody reads is made here."""


def entries_of(columns: Columns) -> Iterator[Entry]:
    """The entries with copies of their payloads, which then keep nothing of the page alive."""
    payloads = Struct("".join(map("{}s".format, columns.sizes))).unpack(columns.payload)
    return map(_entry, zip(columns.ids, payloads, strict=True))


async def read_batch(
    pages: PageFetcher,
    opened: Callable[[Columns], Columns],
    first_entry: int,
    last_entry: int,
    bytes_max: int,
) -> list[Entry]:
    """The entries first_entry … last_entry that take `bytes_max` together; at least the first. `opened` decrypts.

    Ends before one that cannot be read; raises as `PageFetcher.fetch` does when that is the first.
    """
    batch: list[Entry] = []
    left_bytes = bytes_max
    while first_entry + len(batch) <= last_entry and left_bytes > 0:
        try:
            page = opened(await pages.fetch(first_entry + len(batch), last_entry, left_bytes))
        except EntryUnreadable:
            if not batch:
                raise
            return batch  # whoever asks for the next entry is told
        for entry in entries_of(page):
            left_bytes -= len(entry.payload)
            if left_bytes < 0 and batch:
                return batch
            batch.append(entry)
    return batch
