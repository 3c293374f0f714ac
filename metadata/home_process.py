"""The process that made something. `fork()` copies objects, but neither their threads nor their connections."""

from __future__ import annotations

import os

FORKED = (
    "it was made before fork(), in process {pid}, and works only there: make a new one in this process, "
    "after the fork"
)


class HomeProcess:
    """Remembers the process it was made in. Asking costs one system call, and takes no lock."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """False in a child that was forked since."""
        return os.getpid() == self._pid

    @property
    def why_not(self) -> str:
        """What to tell whoever uses a thing of another process, behind the thing's name and a colon."""
        return FORKED.format(pid=self._pid)
