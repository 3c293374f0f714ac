"""An election: who leads, one program at a time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from metadata import keys
from metadata.records.coordination import election_record
from metadata.records.coordination.candidates import Candidate
from metadata.records.coordination.election_record import TermRecord

from ..cluster import Cluster
from ..errors import NotAllowed
from ..record_change import metadata_errors
from .campaign import LEASE_SECONDS, campaign, check_lease, this_process
from .term import Term

Leading = AbstractAsyncContextManager[Term]
"""What waits for a term, and leaves it."""


class ElectionClient(ABC):
    """What `LedgerClient` does with elections."""

    @abstractmethod
    async def _connected(self) -> Cluster:
        """Connects where that was not done yet."""

    def election(self, name: str) -> Election:
        """The election of this name: nothing has to be created. Raises ValueError for an unusable name."""
        return Election(self, keys.check_name(name))


class Election:
    """One election. Made by `LedgerClient.election`; belongs to its event loop."""

    def __init__(self, client: ElectionClient, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"<Election {self.name!r}>"

    def lead(
        self, name: str | None = None, *, lease_seconds: float = LEASE_SECONDS, timeout: float | None = None
    ) -> Leading:
        """Waits for its turn, and leads while the block lasts, which gets the term.

        `name` is for people; the default is host and process. A leader that dies is followed once its lease of
        `lease_seconds` has run out (etcd rounds up to whole seconds), one that leaves the block at once. Outages of the
        store are waited for. Raises TimeoutError after `timeout` seconds, NotAllowed where certificates say so,
        MetadataUnavailable where the store refuses, ClientClosed. What ends the term is told by the term alone.
        """
        return self._lead(name or this_process(), check_lease(lease_seconds), timeout)

    @asynccontextmanager
    async def _lead(self, name: str, lease_seconds: float, timeout: float | None) -> AsyncIterator[Term]:
        cluster = await self._client._connected()
        if why := cluster.why_not_created():
            raise NotAllowed(why)

        async def begin(candidate: Candidate) -> int:
            now_ms = time.time_ns() // 1_000_000
            return (await election_record.begin_term(cluster.store, self.name, candidate, now_ms)).token

        led = keys.election(self.name)
        async with campaign(cluster, led, name, lease_seconds, begin, timeout) as (place, token):
            yield Term(self.name, token, place)

    async def leader(self) -> TermRecord | None:
        """Who leads, in which term, since when; None where nobody does. Raises MetadataUnavailable."""
        cluster = await self._client._connected()
        with metadata_errors():
            return await election_record.current_term(cluster.store, self.name)
