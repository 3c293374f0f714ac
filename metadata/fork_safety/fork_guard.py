"""Fork guard: detects use of an object in a forked child. `fork()` copies objects, but not threads or connections."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn


class _Forks:
    """Counts the forks that led to this process. Comparing this count is cheaper than comparing process ids, because it
    needs no system call."""

    count = 0


def _was_forked() -> None:
    _Forks.count += 1


os.register_at_fork(after_in_child=_was_forked)


class NotPickled:
    """Base class of objects that belong to one process. Pickling them raises TypeError."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a client and its handles cannot be pickled: pass the metadata URI to the other "
            "process, and make a client there"
        )


class ForkGuard:
    """Remembers the process in which it was created. A check is cheap, and takes no lock.

    `error` creates the exception that `check` raises, given the reason.
    """

    __slots__ = ("_error", "_forks", "_pid")

    def __init__(self, error: Callable[[str], Exception]) -> None:
        self._error = error
        self._forks = _Forks.count
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """False in a child that was forked after this object was created."""
        return self._forks == _Forks.count

    def check(self) -> None:
        """Raises the owner's error in a forked child, where a lock that the parent held may remain locked forever."""
        if self._forks != _Forks.count:  # `is_here`, inlined because this runs on every append
            raise self._error(
                f"it was made before fork(), in process {self._pid}, and works only there: make a new one in this "
                "process, after the fork"
            )
