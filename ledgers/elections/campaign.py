"""Campaigns: a candidate takes a place in the queue, waits until it is first, and begins its term."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from metadata.counting.outage import weight
from metadata.errors import LeaseLost, StoreRefused, StoreUnavailable
from metadata.records.coordination.candidates import Candidate, CandidateStore

from ..cluster import Cluster
from ..errors import ClientClosed
from ..record_change import metadata_errors
from .place import Place

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
"""Delay before a candidate tries again after the store failed to answer, or after the candidate lost its place."""

LEASE_SECONDS = 10.0
LEASE_SECONDS_MIN = 1.0
LEASE_SECONDS_MAX = 3600.0
"""Maximum lease. A shorter lease detects a failed leader sooner; a longer one survives longer pauses and outages of the
store."""

Begin = Callable[[Candidate], Awaitable[int]]
"""Begins the term of a candidate that is first in the queue; returns the term's token. Raises MetadataError."""


def check_lease(lease_seconds: float) -> float:
    """Returns the lease. Raises ValueError for an unusable lease."""
    if not LEASE_SECONDS_MIN <= lease_seconds <= LEASE_SECONDS_MAX:
        raise ValueError(
            f"a lease lasts {LEASE_SECONDS_MIN:g} to {LEASE_SECONDS_MAX:g} seconds, not {lease_seconds}"
        )
    return lease_seconds


def this_process() -> str:
    """Returns the host name and process id, the default human-readable label."""
    return f"{socket.gethostname()}:{os.getpid()}"


@asynccontextmanager
async def campaign(
    cluster: Cluster, led: str, name: str, lease_seconds: float, begin: Begin, timeout: float | None
) -> AsyncIterator[tuple[Place, int]]:
    """Waits until the candidate is first in the queue for the record `led`, and begins a term; yields the candidate's
    place and the term's token.

    Waits through outages of the store. Raises TimeoutError, MetadataUnavailable if the store refuses the request,
    LedgerError for a record written by a newer program, ClientClosed.
    """
    candidacy = _Candidacy(cluster, CandidateStore(cluster.store, led), name, lease_seconds)
    try:
        with metadata_errors():
            async with asyncio.timeout(timeout):
                begun = await candidacy.won(begin)
        yield begun
    finally:
        await candidacy.withdraw("the leader has left")


class _Candidacy:
    """One candidate, which rejoins the queue if it loses its place."""

    def __init__(self, cluster: Cluster, candidates: CandidateStore, name: str, lease_seconds: float) -> None:
        self._cluster = cluster
        self._candidates = candidates
        self._name = name
        self._lease_seconds = lease_seconds
        self._place: Place | None = None

    async def won(self, begin: Begin) -> tuple[Place, int]:
        while True:
            try:
                place = await self._standing()
                if await place.is_first():
                    token = await begin(place.candidate)
                    if not place.is_lost:
                        log.info("%s leads (%s, term %d)", self._name, self._candidates.led, token)
                        return place, token
                log.warning("%s rejoins the queue: %s", self._name, place.why_lost)
            except StoreRefused:
                raise
            except (StoreUnavailable, LeaseLost) as error:
                log.log(weight(error), "%s is waiting to lead, and will try again: %s", self._name, error)
            await asyncio.sleep(RETRY_SECONDS)

    async def withdraw(self, why: str) -> None:
        place, self._place = self._place, None
        if place is not None:
            self._cluster.places.discard(place)
            await place.leave(why)

    async def _standing(self) -> Place:
        """Returns the candidate's place in the queue; takes a new place if the old one is lost."""
        if self._place is not None and self._place.is_lost:
            await self.withdraw(self._place.why_lost)
        if self._cluster.is_closed:
            raise ClientClosed
        if self._place is None:
            self._place = await Place.take(self._candidates, self._name, self._lease_seconds)
            self._cluster.places.add(self._place)
        return self._place
