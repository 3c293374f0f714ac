"""Encoded records of a writer that are not confirmed, kept so that another segment can take them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, islice

from ...entry import ENTRY_OVERHEAD_BYTES


class UnconfirmedRecords:
    """The records by position, in the batches in which they were taken in."""

    def __init__(self, first_position: int) -> None:
        self._batches: deque[list[bytes]] = deque()
        self._confirmed_of_first = 0  # records of the first batch that are confirmed
        self._first = first_position
        self._count = 0
        self._payload_bytes = 0

    @property
    def size_bytes(self) -> int:
        """What they take, each with its overhead."""
        return self._payload_bytes + ENTRY_OVERHEAD_BYTES * self._count

    def add(self, records: list[bytes], size_bytes: int) -> None:
        """Adds records that are so many bytes together."""
        self._batches.append(records)
        self._count += len(records)
        self._payload_bytes += size_bytes

    def drop(self, end_position: int) -> int:
        """Drops those before this position, which are confirmed; how many."""
        dropped = count = end_position - self._first
        assert 0 <= count <= self._count
        self._first, self._count = end_position, self._count - count
        while count:
            batch, start = self._batches[0], self._confirmed_of_first
            taken = batch[start : start + count]
            self._payload_bytes -= sum(map(len, taken))
            count -= len(taken)
            self._confirmed_of_first += len(taken)
            if self._confirmed_of_first == len(batch):
                self._batches.popleft()
                self._confirmed_of_first = 0
        return dropped

    def between(self, first_position: int, stop_position: int) -> list[bytes]:
        """The records of these positions."""
        assert self._first <= first_position <= stop_position <= self._first + self._count
        skipped = self._confirmed_of_first + first_position - self._first
        return list(islice(self._all(), skipped, skipped + stop_position - first_position))

    def _all(self) -> Iterator[bytes]:
        return chain.from_iterable(self._batches)
