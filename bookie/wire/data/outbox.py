"""Send backlog of a TLS connection, passed to the transport in small slices.

A TLS transport encrypts its input immediately, and puts the result into a lower-level buffer that cannot be inspected.
It is therefore given one slice at a time, and the next slice only when the kernel has accepted the previous one, except
for the bytes in that buffer (64 KiB). This module counts the waiting bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from .framing import Part

SLICE_BYTES = 64 * 1024
"""Number of bytes that are encrypted and passed on at a time."""

ROOM_SHARE = 4
"""A paused writer resumes when the backlog has shrunk to a quarter of the limit."""


class Outbox:
    """Backlog of one TLS transport. `on_full` and `on_room` are called like `pause_writing` and `resume_writing`."""

    def __init__(
        self,
        transport: asyncio.Transport,
        bytes_max: int,
        on_full: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._bytes_max = bytes_max
        self._on_full = on_full
        self._on_room = on_room
        self._waiting: deque[Part] = deque()
        self._waiting_bytes = 0
        self._is_held = False
        self._is_full = False
        self._is_closing = False
        transport.set_write_buffer_limits(high=1, low=0)

    @property
    def size_bytes(self) -> int:
        """Sent bytes that the kernel has not accepted, except for those in the buffer below TLS."""
        return self._waiting_bytes + self._transport.get_write_buffer_size()

    def send(self, buffers: Sequence[Part]) -> None:
        for buffer in buffers:
            view = memoryview(buffer)
            self._waiting.extend(view[at : at + SLICE_BYTES] for at in range(0, len(view), SLICE_BYTES))
            self._waiting_bytes += len(view)
        self._hand_on()
        if not self._is_full and self.size_bytes > self._bytes_max:
            self._is_full = True
            self._on_full()

    def hold(self) -> None:
        """Implements the transport's `pause_writing`."""
        self._is_held = True

    def go_on(self) -> None:
        """Implements the transport's `resume_writing`: continues sending."""
        self._is_held = False
        self._hand_on()
        if self._is_full and self.size_bytes <= self._bytes_max // ROOM_SHARE:
            self._is_full = False
            self._on_room()

    def close(self) -> None:
        """Closes the transport once the backlog is sent."""
        self._is_closing = True
        self._hand_on()

    def drop(self) -> None:
        """Drops the backlog of a lost connection."""
        self._waiting.clear()
        self._waiting_bytes = 0

    def _hand_on(self) -> None:
        while self._waiting and not self._is_held:
            slices: list[Part] = []
            size = 0
            while self._waiting and size < SLICE_BYTES:
                slices.append(self._waiting.popleft())
                size += len(slices[-1])
            self._waiting_bytes -= size
            self._transport.writelines(slices)
        if self._is_closing and not self._waiting:
            self._transport.close()
