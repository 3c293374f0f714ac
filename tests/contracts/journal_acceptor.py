"""What every acceptor of a journal must do. An acceptor is done when this class passes on it.

A subclass opens a `Place`: somewhere that acceptors `a` and `b` keep their journals, and where each call of
`process` is another process that serves one of them. The rules and messages are those of Hadoop's JournalNode.
"""

from __future__ import annotations

from .journal.administration import Administration
from .journal.catching_up import CatchingUp
from .journal.checks import Checks
from .journal.place import UPGRADED, Place, assert_shows
from .journal.promises import Promises
from .journal.readers import Readers
from .journal.recovery import Recovery
from .journal.segments import Segments
from .journal.storage import Storage

__all__ = ["UPGRADED", "JournalAcceptorContract", "Place", "SyncedAcceptorContract", "assert_shows"]


class JournalAcceptorContract(Checks, Storage, Administration, Promises, Segments, Recovery, Readers):
    """Inherit, give a place, and run."""


class SyncedAcceptorContract(JournalAcceptorContract, CatchingUp):
    """For acceptors that also take in segments of others; a JournalNode's client does not, the node itself does."""
