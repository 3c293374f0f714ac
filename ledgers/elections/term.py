"""A term: the period in which one program leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .errors import LeadershipLost
from .place import Place


class Term:
    """One leader's term. Created by `Election.lead`; belongs to its event loop.

    The term is over when the leader leaves it, or once the lease may have expired by the leader's own clock. A leader
    that hangs, or whose clock is wrong, learns of this too late. Therefore every system that the leader writes to has
    to use the `token` to refuse former leaders. `lost` is an event (`asyncio.Event`, or `threading.Event` for the
    blocking client) that is set once the term is over.
    """

    def __init__(self, election: str, token: int, place: Place) -> None:
        self.election = election
        """The election's name."""
        self.token = token
        """The number of the term; each term has a higher one than the term before."""
        self._place = place

    def __repr__(self) -> str:
        return f"<Term {self.token} of election {self.election!r}: {self.why_lost or 'leading'}>"

    @property
    def leader(self) -> str:
        """The name that the leader passed to `lead`."""
        return self._place.candidate.name

    @property
    def lost(self) -> asyncio.Event:
        """Set once the term is over."""
        return self._place.lost

    @property
    def why_lost(self) -> str:
        """The reason why the term is over; empty while it lasts."""
        return self._place.why_lost

    def check(self) -> None:
        """Raises LeadershipLost once the term is over, even if the process was stopped and nothing else has noticed
        yet."""
        if self._place.is_lost:
            raise LeadershipLost(self.election, self.token, self.why_lost)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Calls `callback` once, soon after the term is lost, but not when the leader leaves the term.

        The callback runs on the client's event loop, and must not wait for the client.
        """
        self._place.on_lost(callback)
