"""Blocking elections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from ..elections import election as aio
from ..elections import term as aio_term
from ..elections.campaign import LEASE_SECONDS
from ..errors import ClientClosed
from ..loop_thread import LoopThread
from .twin_calls import BlockingFacade, asking, copy_docstring, waiting_for


class Term(BlockingFacade[aio_term.Term]):
    """One leader's term. Created by `Election.lead`; may be used from several threads.

    The term is over when the leader leaves it, or once the lease may have expired by the leader's own clock. A leader
    that hangs, or whose clock is wrong, learns of this too late. Therefore every system that the leader writes to has
    to use the `token` to refuse former leaders. `lost` is an event (`asyncio.Event`, or `threading.Event` for the
    blocking client) that is set once the term is over.
    """

    def __init__(self, thread: LoopThread, twin: aio_term.Term) -> None:
        super().__init__(thread, twin)
        self.lost = threading.Event()
        """Set once the term is over."""
        self._following = thread.submit(self._follow())

    @property
    def election(self) -> str:
        """The election's name."""
        return self._twin.election

    @property
    def token(self) -> int:
        """The number of the term; each term has a higher number than the term before."""
        return self._twin.token

    @property
    def leader(self) -> str:
        """The name that the leader passed to `lead`."""
        return self._twin.leader

    @property
    def why_lost(self) -> str:
        """The reason why the term is over; empty while it lasts."""
        return self._twin.why_lost

    check = asking(aio_term.Term.check)

    @copy_docstring(aio_term.Term.on_lost)
    def on_lost(self, callback: Callable[[], object]) -> None:
        self._thread.call_soon(lambda: self._twin.on_lost(callback))

    async def _follow(self) -> None:
        await self._twin.lost.wait()
        self.lost.set()


class Election(BlockingFacade[aio.Election]):
    """One election: at most one candidate leads at a time.

    Created by `LedgerClient.election`; may be used from several threads.

    A `with` block on `lead` waits in the queue of candidates, then leads until the block ends; `leader` returns the
    current term. A candidate holds its place by a lease in the metadata store, and each term has a higher token than
    the term before. Pass the term to `Log.writer`, so that the log refuses the leaders of earlier terms.
    """

    @property
    def name(self) -> str:
        """The election's name."""
        return self._twin.name

    @copy_docstring(aio.Election.lead)
    def lead(
        self, name: str | None = None, *, lease_seconds: float = LEASE_SECONDS, timeout: float | None = None
    ) -> AbstractContextManager[Term]:
        return self._lead(self._twin.lead(name, lease_seconds=lease_seconds, timeout=timeout))

    @contextmanager
    def _lead(self, leading: aio.Leading) -> Iterator[Term]:
        term = Term(self._thread, self._run(leading.__aenter__))
        try:
            yield term
        finally:
            with suppress(ClientClosed):  # closing the client has already ended the term
                self._run(partial(leading.__aexit__, None, None, None))
                term.lost.set()

    leader = waiting_for(aio.Election.leader)
