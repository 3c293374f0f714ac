"""The append backlog: entries appended and not yet in the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bookie.wire import FRAME_BYTES_MAX, FRAME_ENTRIES_MAX

from ..protocol.pending import batch_end


class AppendBacklog:
    """What is appended between two loop iterations. Counted until the machine has it."""

    def __init__(self) -> None:
        self._payloads: list[bytes] = []
        self._head = b""  # with which each of them begins
        self.entries = 0
        self.bytes = 0

    def add(self, payload: bytes) -> None:
        if self._head:
            self._spell_out()
        self._payloads.append(payload)
        self.entries += 1
        self.bytes += len(payload)

    def add_all(self, payloads: Sequence[bytes], size_bytes: int, head: bytes = b"") -> None:
        """Adds payloads that are so many bytes together, each with `head` before it."""
        if not self._payloads:
            self._head = head
        elif head != self._head:
            self._spell_out()
            payloads = [head + payload for payload in payloads]
        self._payloads += payloads
        self.entries += len(payloads)
        self.bytes += size_bytes

    def _spell_out(self) -> None:
        """Puts the head in front of each: what comes now has another one."""
        self._payloads, self._head = [self._head + payload for payload in self._payloads], b""

    def batches(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """Yields all that waits, a full frame at a time, as a head and payloads; batches not taken are dropped."""
        head, self._head = self._head, b""
        payloads, self._payloads = self._payloads, []
        if self.bytes <= FRAME_BYTES_MAX and self.entries <= FRAME_ENTRIES_MAX:  # as nearly always
            if payloads:
                yield head, payloads
            self.entries = self.bytes = 0
            return
        start = 0
        while start < len(payloads):
            stop = batch_end(payloads, start, len(head))
            batch = payloads[start:stop]
            yield head, batch
            self.entries -= len(batch)
            self.bytes -= len(head) * len(batch) + sum(map(len, batch))
            start = stop
