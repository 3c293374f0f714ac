"""In-memory cache of an acceptor's latest edits, for readers that tail it."""

from __future__ import annotations

from collections import deque

from ..batch import Batch
from ..edits import slice_batch
from ..errors import EditsNotCached
from ..requests import JournaledEdits


class EditsCache:
    """Contiguous batches of one layout and one writer, evicted oldest first. Holds only edits that are on disk."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._writer_epoch = 0
        self._batches: deque[Batch] = deque()
        self._bytes = 0
        self._layout_version = 0

    @property
    def first_txid(self) -> int | None:
        return self._batches[0].first_txid if self._batches else None

    @property
    def last_txid(self) -> int | None:
        return self._batches[-1].last_txid if self._batches else None

    def store(self, batch: Batch, layout_version: int) -> None:
        """Adds a batch. If the batch leaves a gap, or has another layout or writer, clears the cache first."""
        last = self.last_txid
        kind = (layout_version, batch.writer_epoch)
        follows = last is None or batch.first_txid == last + 1
        if kind != (self._layout_version, self._writer_epoch) or not follows:
            self.clear()
        self._layout_version, self._writer_epoch = kind
        self._batches.append(batch)
        self._bytes += len(batch.records)
        while self._bytes > self._bytes_max:
            self._bytes -= len(self._batches.popleft().records)

    def clear(self) -> None:
        self._batches.clear()
        self._bytes = 0

    def retrieve(self, since_txid: int, max_txns: int, bytes_max: int | None = None) -> JournaledEdits:
        """Returns at most `max_txns` edits from `since_txid` on, exceeding `bytes_max` by at most one batch.

        Raises EditsNotCached if the edits were evicted or were never cached.
        """
        first, last = self.first_txid, self.last_txid
        if first is None or last is None or since_txid < first:
            raise EditsNotCached(since_txid, 0 if first is None else first - since_txid)
        end = min(last, since_txid + max_txns - 1)
        if end < since_txid:
            return JournaledEdits(0, self._layout_version)
        limit = self._bytes_max if bytes_max is None else bytes_max
        parts: list[bytes | memoryview] = []
        size = 0
        for batch in self._batches:
            if batch.last_txid < since_txid:
                continue
            if batch.first_txid > end or size >= limit:
                end = min(end, batch.first_txid - 1)
                break
            parts.append(cut(batch, since_txid, end))
            size += len(parts[-1])
        records = b"".join(parts)
        return JournaledEdits(end - since_txid + 1, self._layout_version, records, self._writer_epoch)


def cut(batch: Batch, first_txid: int, last_txid: int) -> bytes | memoryview:
    """Returns a batch's frames in this txid range. Does not parse frames if the range covers the complete batch."""
    if first_txid <= batch.first_txid and batch.last_txid <= last_txid:
        return batch.records
    return slice_batch(batch.records, max(first_txid, batch.first_txid), min(last_txid, batch.last_txid))
