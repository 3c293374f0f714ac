"""Elections in ordinary code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from metadata.records.coordination.election_record import TermRecord

from ...elections import election as aio
from ...elections import term as aio_term
from ...elections.campaign import LEASE_SECONDS
from ...errors import ClientClosed
from ...loop_thread import LoopThread


class Term:
    """One leader's term; see `ledgers.elections.term.Term`. May be used from several threads.

    `lost` is a threading.Event.
    """

    def __init__(self, thread: LoopThread, twin: aio_term.Term) -> None:
        self._thread = thread
        self.twin = twin
        self.lost = threading.Event()
        self._following = thread.submit(self._follow())

    def __repr__(self) -> str:
        return repr(self.twin)

    @property
    def election(self) -> str:
        return self.twin.election

    @property
    def token(self) -> int:
        """The number of the term: it only grows from term to term."""
        return self.twin.token

    @property
    def leader(self) -> str:
        """The name under which it leads."""
        return self.twin.leader

    @property
    def why_lost(self) -> str:
        """Why it is over; empty while it is not."""
        return self.twin.why_lost

    def check(self) -> None:
        """Raises LeadershipLost once the term is over, also where the process was stopped and nobody else noticed."""
        self._thread.run(self._checked())

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Calls back on the client's own thread, soon after the term is lost; not where the leader leaves it.

        The callback may not wait for the client.
        """
        self._thread.call_soon(lambda: self.twin.on_lost(callback))

    async def _follow(self) -> None:
        await self.twin.lost.wait()
        self.lost.set()

    async def _checked(self) -> None:
        self.twin.check()


class Election:
    """One election; see `ledgers.elections.election.Election`."""

    def __init__(self, thread: LoopThread, twin: aio.Election) -> None:
        self._thread = thread
        self._twin = twin

    def __repr__(self) -> str:
        return repr(self._twin)

    @property
    def name(self) -> str:
        return self._twin.name

    def lead(
        self, name: str | None = None, *, lease_seconds: float = LEASE_SECONDS, timeout: float | None = None
    ) -> AbstractContextManager[Term]:
        """Waits for its turn, and leads while the block lasts: `with election.lead() as term`.

        See `ledgers.elections.election.Election.lead`.
        """
        return self._lead(self._twin.lead(name, lease_seconds=lease_seconds, timeout=timeout))

    @contextmanager
    def _lead(self, leading: aio.Leading) -> Iterator[Term]:
        term = Term(self._thread, self._thread.run(leading.__aenter__()))
        try:
            yield term
        finally:
            with suppress(ClientClosed):  # then it was left already
                self._thread.run(leading.__aexit__(None, None, None))
                term.lost.set()

    def leader(self) -> TermRecord | None:
        """Who leads, in which term, since when; None where nobody does."""
        return self._thread.run(self._twin.leader())
