"""Fork safety of SQLite: no fork during a transaction, and the child closes inherited connections.

SQLite holds locks on its file for the whole process, and counts them in memory. A forked child inherits the count and
none of the locks: its own connections would run unlocked, and the parent, when it closes, would delete a log that the
child still writes. So no fork happens while a thread is inside SQLite, and the child closes its inherited connections
first. SQLite then has no open file there, and takes locks for the files that the child opens.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Inherited(Protocol):
    """Holder of a connection."""

    def close_inherited(self) -> None:
        """Closes the connection in a forked child."""


class ForkGate:
    """A lock that threads inside SQLite share, and a fork takes exclusively."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._holders: weakref.WeakSet[Inherited] = weakref.WeakSet()

    def add(self, holder: Inherited) -> None:
        with self._changed:
            self._holders.add(holder)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Hold this while a thread calls SQLite, from the begin of a transaction to its end."""
        with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def before_fork(self) -> None:
        self._changed.acquire()
        self._changed.wait_for(lambda: self._inside == 0)

    def after_fork_in_parent(self) -> None:
        self._changed.release()

    def after_fork_in_child(self) -> None:
        holders = list(self._holders)
        self._reset()  # threads that do not exist here held the lock, and will not leave
        for holder in holders:
            holder.close_inherited()


gate = ForkGate()
os.register_at_fork(
    before=gate.before_fork,
    after_in_parent=gate.after_fork_in_parent,
    after_in_child=gate.after_fork_in_child,
)
