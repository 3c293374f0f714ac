"""A writer's encoded records that are not confirmed, kept so that another segment can take them."""

from __future__ import annotations

from collections import deque

from ...entry import ENTRY_OVERHEAD_BYTES
from ..record_batch import EncodedRecords


class UnconfirmedRecords:
    """The records by position, in the batches in which they were taken in."""

    def __init__(self, first_position: int) -> None:
        self._batches: deque[tuple[EncodedRecords, int]] = (
            deque()
        )  # with the bytes of each that are unconfirmed
        self._confirmed_of_first = 0  # records of the first batch that are confirmed
        self._first = first_position
        self._count = 0
        self._payload_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Their size, each with its overhead."""
        return self._payload_bytes + ENTRY_OVERHEAD_BYTES * self._count

    def add(self, records: EncodedRecords, size_bytes: int) -> None:
        """Adds records whose total size is `size_bytes`."""
        self._batches.append((records, size_bytes))
        self._count += len(records.rests)
        self._payload_bytes += size_bytes

    def drop(self, end_position: int) -> int:
        """Drops the confirmed records before this position; returns their number."""
        dropped = count = end_position - self._first
        assert 0 <= count <= self._count
        self._first, self._count = end_position, self._count - count
        while count:
            batch, size_bytes = self._batches.popleft()
            left = len(batch.rests) - self._confirmed_of_first
            if count < left:
                start = self._confirmed_of_first
                taken_bytes = batch.cut(start, start + count).size_bytes
                self._batches.appendleft((batch, size_bytes - taken_bytes))
                self._payload_bytes -= taken_bytes
                self._confirmed_of_first += count
                break
            self._payload_bytes -= size_bytes
            self._confirmed_of_first = 0
            count -= left
        return dropped

    def between(self, first_position: int, stop_position: int) -> list[EncodedRecords]:
        """The records of these positions."""
        assert self._first <= first_position <= stop_position <= self._first + self._count
        start = self._confirmed_of_first + first_position - self._first
        stop = start + stop_position - first_position
        found = []
        for batch, _ in self._batches:
            part = batch.cut(max(0, start), max(0, stop))
            if part.rests:
                found.append(part)
            start, stop = start - len(batch.rests), stop - len(batch.rests)
        return found
