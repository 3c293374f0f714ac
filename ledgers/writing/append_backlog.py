"""The append backlog: entries appended and not yet in the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bookie.wire import FRAME_BYTES_MAX, FRAME_ENTRIES_MAX

from ..protocol.pending import batch_end


class AppendBacklog:
    """What is appended between two loop iterations. Counted until the machine has it."""

    def __init__(self) -> None:
        self._payloads: list[bytes] = []
        self.entries = 0
        self.bytes = 0

    def add(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self.entries += 1
        self.bytes += len(payload)

    def add_all(self, payloads: Sequence[bytes], size_bytes: int) -> None:
        """Adds payloads that are so many bytes together."""
        self._payloads += payloads
        self.entries += len(payloads)
        self.bytes += size_bytes

    def batches(self) -> Iterator[list[bytes]]:
        """Yields all that waits, a full frame at a time; batches not taken are dropped."""
        payloads, self._payloads = self._payloads, []
        if self.bytes <= FRAME_BYTES_MAX and self.entries <= FRAME_ENTRIES_MAX:  # as nearly always
            if payloads:
                yield payloads
            self.entries = self.bytes = 0
            return
        start = 0
        while start < len(payloads):
            stop = batch_end(payloads, start)
            batch = payloads[start:stop]
            yield batch
            self.entries -= len(batch)
            self.bytes -= sum(map(len, batch))
            start = stop
