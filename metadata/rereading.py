"""What holds a secret from a file, and can be told to read it again: by SIGHUP, at a daemon."""

from __future__ import annotations

import logging
from typing import Protocol
from weakref import WeakSet

log = logging.getLogger(__name__)


class Rereads(Protocol):
    """Part of the interface of what holds a secret."""

    def read_again(self) -> None:
        """Has the next use read the file."""


_holders: WeakSet[Rereads] = WeakSet()


def tell_at_hangup(holder: Rereads) -> None:
    """Tells it from now on, for as long as it lives."""
    _holders.add(holder)


def read_all_again() -> None:
    """Tells all of this process."""
    log.warning("SIGHUP: passwords and certificates are read again where they are used next")
    for one in list(_holders):
        one.read_again()
