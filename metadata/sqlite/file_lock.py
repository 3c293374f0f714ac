"""Lock for one writer at a time, which is released when the process that holds it dies: `flock` on a file.

`flock` queues, but has no time limit: a process that is stopped while it holds the lock (by SIGSTOP or a debugger)
would even prevent every other process from exiting. So a process that does not get the lock at once waits in a thread
that does not delay the process's exit.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreUnavailable

LOCK_SECONDS_MAX = 8.0
"""Maximum time for which a write waits for its turn. It is shorter than a call's time limit, so that the error can name
the process that holds the lock."""


class FileLock:
    """The lock on one file descriptor, used by one thread. It owns the descriptor."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        self._waiter: _Waiter | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the lock until the end of the block. Raises StoreUnavailable if the lock is not free within
        LOCK_SECONDS_MAX; in that case the waiting thread keeps waiting, for the next call."""
        try:
            self._take()
        except OSError as error:
            raise StoreUnavailable(f"cannot lock {self._path}: {error.strerror}") from error
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Closes the descriptor, also in a forked child, which has no waiting thread."""
        os.close(self._fd)
        if self._waiter is not None:
            self._waiter.close_in_fork()

    def _take(self) -> None:
        got: bool | None = False
        while not got:
            if self._waiter is None and self._is_free():
                return
            self._waiter = self._waiter or _Waiter(self._fd)
            got = self._waiter.wait(LOCK_SECONDS_MAX)
            if got is None:
                raise StoreUnavailable(
                    f"{self._path} has been locked for {LOCK_SECONDS_MAX:g} s: {holder(self._fd)}"
                )
            self._waiter = None

    def _is_free(self) -> bool:
        """Takes the lock if it is free; returns whether it did."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class _Waiter:
    """A thread that waits for the lock. If no call is waiting when the thread gets the lock, it releases the lock."""

    def __init__(self, fd: int) -> None:
        self._fd = os.dup(fd)  # shares the lock; closing only one of the two does not release it
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._is_wanted = False
        self._got: bool | None = None
        self._error: OSError | None = None
        threading.Thread(target=self._run, name="metadata-lock", daemon=True).start()

    def wait(self, seconds_max: float) -> bool | None:
        """Waits for the lock. Returns True if it is held now, False if the thread got it when no call was waiting, None
        if the thread has not got it yet. Raises OSError."""
        with self._changed:
            self._is_wanted = True
            self._changed.wait_for(lambda: self._got is not None, seconds_max)
            self._is_wanted = False
            if self._error is not None:
                raise self._error
            return self._got

    def close_in_fork(self) -> None:
        if self._pid != os.getpid() and self._fd >= 0:
            os.close(self._fd)

    def _run(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as error:
            self._error = error
        with self._changed:
            self._got = self._is_wanted
            if not self._got:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            fd, self._fd = self._fd, -1
            os.close(fd)
            self._changed.notify_all()


def holder(fd: int) -> str:
    """Returns a message that names the process holding the lock, and the remedy."""
    inode = f":{os.fstat(fd).st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        _, kind, *_, pid, file, _, _ = line.split()
        if kind == "FLOCK" and file.endswith(inode) and int(pid) > 0:
            return f"process {pid} holds the lock, and hangs or is stopped; resume it (kill -CONT {pid}) or end it"
    return "the process that holds the lock hangs or is stopped; resume it or end it"
