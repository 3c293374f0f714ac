"""Elections: at most one program leads at a time."""

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
"""A context manager that waits for a term when it is entered, and ends the term when it is exited."""


class ElectionClient(ABC):
    """The methods of `LedgerClient` for elections."""

    @abstractmethod
    async def _connected(self) -> Cluster:
        """Connects if the client is not connected yet."""

    def election(self, name: str) -> Election:
        """Returns the election with this name; it need not be created first. Raises ValueError for an unusable name."""
        return Election(self, keys.check_name(name))


class Election:
    """One election: at most one candidate leads at a time.

    Created by `LedgerClient.election`; belongs to its event loop.

    A `with` block on `lead` waits in the queue of candidates, then leads until the block ends; `leader` returns the
    current term. A candidate holds its place by a lease in the metadata store, and each term has a higher token than
    the term before. Pass the term to `Log.writer`, so that the log refuses the leaders of earlier terms.
    """

    def __init__(self, client: ElectionClient, name: str) -> None:
        self._client = client
        self.name = name
        """The election's name."""

    def __repr__(self) -> str:
        return f"<Election {self.name!r}>"

    def lead(
        self, name: str | None = None, *, lease_seconds: float = LEASE_SECONDS, timeout: float | None = None
    ) -> Leading:
        """Waits in the queue of candidates, and leads while the `with` block lasts; the block receives the term.

        `name` is a human-readable label; the default is host and process. `lease_seconds` must be between 1 and 3600.
        If a leader dies, the next candidate takes over once the leader's lease has expired (etcd rounds up to whole
        seconds); if the leader leaves the block, the next candidate takes over at once. Waits through outages of the
        store. Raises TimeoutError after `timeout` seconds, ValueError for an unusable lease, NotAllowed if the client's
        certificate does not permit it, MetadataUnavailable if the store refuses the request, ClientClosed. The block is
        not interrupted when the term ends: only the term reports this (`check`, `lost`, `on_lost`).
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
        """Returns the current term, with its leader, token and start; None if there is no leader. Raises
        MetadataUnavailable."""
        cluster = await self._client._connected()
        with metadata_errors():
            return await election_record.current_term(cluster.store, self.name)
