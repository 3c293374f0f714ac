"""The append backlog: entries appended and not yet in the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bookie.wire import FRAME_BYTES_MAX, FRAME_ENTRIES_MAX

from ..entry import ENTRY_OVERHEAD_BYTES
from ..protocol.pending import batch_end


class AppendBacklog:
    """What is appended between two loop iterations. Counted until the machine has it."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.size_bytes = 0
        """Whoever takes in one entry while `head` is empty adds to these two by itself, without a call."""
        self.head = b""
        """With which each of them begins."""
        self._leaving = 0  # payloads that are on their way to the machine

    @property
    def entries(self) -> int:
        return self._leaving + len(self.payloads)

    @property
    def room_bytes(self) -> int:
        """What may be added, ENTRY_OVERHEAD_BYTES for each entry included, before there is as much as a frame's.

        More is not gathered: bookies that were sent the first thousands of entries write them while the client makes
        the next ones, where otherwise each would wait for the other.
        """
        return FRAME_BYTES_MAX - self.size_bytes - ENTRY_OVERHEAD_BYTES * len(self.payloads)

    def add_all(self, payloads: Sequence[bytes], size_bytes: int, head: bytes = b"") -> None:
        """Adds payloads that are so many bytes together, each with `head` before it."""
        if not self.payloads:
            self.head = head
        elif head != self.head:
            if self.head:
                self._spell_out()
            payloads = [head + payload for payload in payloads]
        self.size_bytes += size_bytes
        self.payloads += payloads

    def _spell_out(self) -> None:
        """Puts the head in front of each: what comes now has another one."""
        self.payloads, self.head = [self.head + payload for payload in self.payloads], b""

    def batches(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """Yields all that waits, a full frame at a time, as a head and payloads; batches not taken are dropped."""
        left_bytes, start = self.size_bytes, 0
        head, self.head = self.head, b""
        payloads, self.payloads = self.payloads, []
        self._leaving = len(payloads)
        while start < len(payloads):
            if left_bytes <= FRAME_BYTES_MAX and len(payloads) - start <= FRAME_ENTRIES_MAX:
                batch, size = payloads[start:] if start else payloads, left_bytes  # as nearly always
            else:
                batch = payloads[start : batch_end(payloads, start, len(head))]
                size = len(head) * len(batch) + sum(map(len, batch))
            yield head, batch
            start += len(batch)
            left_bytes -= size
            self._leaving -= len(batch)
            self.size_bytes -= size
