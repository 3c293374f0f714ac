"""How much callers may hand to the loop's thread: bounded in bytes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from ..entry import ENTRY_OVERHEAD_BYTES
from ..loop_thread import LoopThread


class Room:
    """What was handed over and not taken in yet, and what may be before it is looked again how much is pending.

    Whoever hands over holds `lock`, that of the condition `changed`, from `wait_while_full` to `enter`.
    """

    def __init__(self, thread: LoopThread) -> None:
        # Weak: the writer on the loop knows this room, and would keep the thread of a client that is forgotten.
        self._thread = weakref.ref(thread)
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.handed_bytes = 0
        self.free_bytes = 0
        """May be handed over without a look; past it, and whenever something has changed, it is looked again."""

    def wait_while_full(self, free_bytes: Callable[[], int]) -> None:
        """Raises ClientClosed, and WouldDeadlock instead of waiting on the loop's thread."""
        thread = self._thread()
        assert thread is not None, "the caller's handle keeps it"
        thread.check_open()
        if self.free_bytes > 0:
            return
        while (free := free_bytes()) <= 0:
            thread.check_may_wait()
            self.changed.wait()
            thread.check_open()
        self.free_bytes = free

    def enter(self, size_bytes: int) -> None:
        """So much is on its way to the loop's thread."""
        self.handed_bytes += size_bytes
        self.free_bytes -= size_bytes

    def leave(self, count: int) -> None:
        """So many bytes were taken in there."""
        with self.lock:
            self.handed_bytes -= count
            self.changed.notify_all()

    def wake(self) -> None:
        """Something else that callers wait for has changed."""
        with self.lock:
            self.free_bytes = 0
            self.changed.notify_all()


def bytes_of(payload: bytes) -> int:
    """What an entry counts until it is confirmed."""
    return len(payload) + ENTRY_OVERHEAD_BYTES
