"""Back-pressure for the blocking writers: limits the number of bytes handed to the loop's thread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from ..entry import ENTRY_OVERHEAD_BYTES
from ..loop_thread import LoopThread


class BackPressure:
    """Counts the bytes that callers have handed over but the loop's thread has not taken in yet, and the bytes that may
    still be handed over before the pending bytes are counted again.

    Callers hold `lock`, the lock of the condition `changed`, from `wait_while_full` to `enter`.
    """

    def __init__(self, thread: LoopThread) -> None:
        # Weak: the writer on the loop refers to this object, so a strong reference would keep an unused client's
        # thread alive.
        self._thread = weakref.ref(thread)
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.handed_bytes = 0
        self.free_bytes = 0
        """Bytes that may be handed over unchecked. After that, and after every change, pending bytes are counted
        again."""

    def wait_while_full(self, free_bytes: Callable[[], int]) -> None:
        """Waits until there is room. Raises ClientClosed; on the loop's thread, raises WouldDeadlock instead of
        waiting."""
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
        """Counts bytes that are on their way to the loop's thread."""
        self.handed_bytes += size_bytes
        self.free_bytes -= size_bytes

    def leave(self, count: int) -> None:
        """Counts bytes that the loop's thread has taken in."""
        with self.lock:
            self.handed_bytes -= count
            self.changed.notify_all()

    def wake(self) -> None:
        """Wakes waiting callers after any change that `leave` does not report."""
        with self.lock:
            self.free_bytes = 0
            self.changed.notify_all()


def bytes_of(payload: bytes) -> int:
    """Returns the number of bytes that an entry counts for until it is confirmed, including its overhead."""
    return len(payload) + ENTRY_OVERHEAD_BYTES
