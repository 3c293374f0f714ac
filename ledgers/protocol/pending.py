"""The window of entries pushed but not yet confirmed, kept in batches for resending."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from bookie.wire import FRAME_BYTES_MAX, FRAME_ENTRIES_MAX, Columns


class PendingEntries:
    """Consecutive unconfirmed entries: added at the end, dropped once confirmed."""

    def __init__(self, first_entry: int, length_bytes: int) -> None:
        self._batches: deque[Columns] = deque()
        self.last_pushed = first_entry - 1
        self._confirmed = first_entry - 1
        self._dropped_length = length_bytes
        self.bytes = 0

    def push(self, columns: Columns) -> None:
        last_entry = self.last_pushed + len(columns)
        assert columns.first_entry == self.last_pushed + 1
        assert columns.last_entry == last_entry
        self._batches.append(columns)
        self.last_pushed = last_entry
        self.bytes += len(columns.payload)

    def confirm(self, last_entry: int) -> None:
        """Marks entries through `last_entry` as confirmed; drops batches that are completely confirmed."""
        assert self._confirmed <= last_entry <= self.last_pushed
        self._confirmed = last_entry
        while self._batches and self._batches[0].last_entry <= last_entry:
            size = len(self._batches.popleft().payload)
            self.bytes -= size
            self._dropped_length += size

    def confirmed_length(self) -> int:
        """Returns the total payload size, in bytes, of the ledger's entries through the last confirmed one."""
        if not self._batches or self._batches[0].first_entry > self._confirmed:
            return self._dropped_length
        batch = self._batches[0]
        return self._dropped_length + sum(batch.sizes[: self._confirmed - batch.first_entry + 1])

    def unconfirmed(self) -> Iterator[Columns]:
        """Yields the entries after the last confirmed one, in order."""
        for batch in self._batches:
            yield batch.between(self._confirmed + 1, batch.last_entry)


def batch_end(payloads: list[bytes], start: int, head_bytes: int = 0) -> int:
    """Returns the end of the batch that begins at `start`. A batch fills a frame, or ends with the last payload. Each
    entry takes an additional `head_bytes`."""
    size = 0
    for stop in range(start, min(len(payloads), start + FRAME_ENTRIES_MAX)):
        size += head_bytes + len(payloads[stop])
        if size > FRAME_BYTES_MAX and stop > start:
            return stop
    return min(len(payloads), start + FRAME_ENTRIES_MAX)
