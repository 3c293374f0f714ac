"""The append backlog: entries that were appended but are not yet in the state machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bookie.wire import FRAME_BYTES_MAX, FRAME_ENTRIES_MAX

from ..entry import ENTRY_OVERHEAD_BYTES
from ..protocol.pending import batch_end


class AppendBacklog:
    """The entries appended between two loop iterations. They count as waiting until the state machine has them."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.size_bytes = 0
        """A caller that appends one entry while `head` is empty adds to these two directly, without a call."""
        self.head = b""
        """The bytes with which each entry begins."""
        self._leaving = 0  # payloads being passed to the machine

    @property
    def entries(self) -> int:
        return self._leaving + len(self.payloads)

    @property
    def room_bytes(self) -> int:
        """Bytes that may be added before the backlog fills a frame, including ENTRY_OVERHEAD_BYTES for each entry.

        No more than that is gathered, so that bookies write the first few thousand entries while the client prepares
        the next ones. Otherwise the bookies and the client would wait for each other.
        """
        return FRAME_BYTES_MAX - self.size_bytes - ENTRY_OVERHEAD_BYTES * len(self.payloads)

    def add_all(self, payloads: Sequence[bytes], size_bytes: int, head: bytes = b"") -> None:
        """Adds payloads of `size_bytes` in total, each preceded by `head`."""
        if not self.payloads:
            self.head = head
        elif head != self.head:
            if self.head:
                self._spell_out()
            payloads = [head + payload for payload in payloads]
        self.size_bytes += size_bytes
        self.payloads += payloads

    def _spell_out(self) -> None:
        """Prepends the head to each payload, because the payloads that follow have a different head."""
        self.payloads, self.head = [self.head + payload for payload in self.payloads], b""

    def batches(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """Yields all waiting entries, up to a full frame at a time, as a head and payloads; batches that the caller
        does not take are dropped."""
        left_bytes, start = self.size_bytes, 0
        head, self.head = self.head, b""
        payloads, self.payloads = self.payloads, []
        self._leaving = len(payloads)
        while start < len(payloads):
            if left_bytes <= FRAME_BYTES_MAX and len(payloads) - start <= FRAME_ENTRIES_MAX:
                batch, size = payloads[start:] if start else payloads, left_bytes  # the usual case
            else:
                batch = payloads[start : batch_end(payloads, start, len(head))]
                size = len(head) * len(batch) + sum(map(len, batch))
            yield head, batch
            start += len(batch)
            left_bytes -= size
            self._leaving -= len(batch)
            self.size_bytes -= size
