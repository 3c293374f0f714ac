"""Members of a group of consumers: each has a place in the group, and a share of the set's logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from metadata import keys
from metadata.counting.outage import weight
from metadata.errors import LeaseLost, StoreRefused, StoreUnavailable, WatchCompacted
from metadata.records.coordination.candidates import CandidateStore
from metadata.records.coordination.log_shares import LogShares
from metadata.records.logs.log_set_record import LogSetRecord

from ...cluster import Cluster
from ...elections.campaign import RETRY_SECONDS
from ...elections.place import Place
from ...errors import ClientClosed, MetadataUnavailable, MetadataWentBack
from ...record_change import metadata_errors
from ...tasks import end_tasks

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Interval at which a member reads the group's members and the number of logs again, even if its watch reports no
change."""

Adopt = Callable[[set[int], LogSetRecord], list[asyncio.Task[None]]]
"""Adopts the logs that the member is to hold; must be called again once one of the returned tasks has ended."""


class Membership:
    """One member. Members that check at the same time compute the same shares, and one of the members writes them."""

    def __init__(self, cluster: Cluster, log_set: str, group: str, member: str, lease_seconds: float) -> None:
        self._cluster = cluster
        self._member = member
        self._lease_seconds = lease_seconds
        self._shares = LogShares(cluster.store, log_set, group)
        self._members = CandidateStore(cluster.store, self._shares.key)
        self.begun_with = 0
        """The number of logs in the set when the group began. Assigned before the member holds any log."""

    async def keep(
        self, refresh: Callable[[], Awaitable[LogSetRecord]], adopt: Adopt, give_up: Callable[[], None]
    ) -> None:
        """Keeps the membership until it is cancelled. If the member loses its place, it releases its logs and takes
        another place.

        Waits while the metadata store is unavailable. Raises the errors of `refresh` and `adopt`, MetadataUnavailable
        if the store refuses a request, MetadataWentBack if the store returned to an older state, or ClientClosed.
        """
        with metadata_errors():
            while not self._cluster.is_closed:
                try:
                    await self._while_it_has_a_place(refresh, adopt, give_up)
                except (StoreRefused, MetadataWentBack):
                    raise
                except (StoreUnavailable, LeaseLost, MetadataUnavailable) as error:
                    line = "member %s of %s currently holds no logs: %s"
                    log.log(weight(error), line, self._member, self._shares.key, error)
                await asyncio.sleep(RETRY_SECONDS)
        raise ClientClosed

    async def _while_it_has_a_place(
        self, refresh: Callable[[], Awaitable[LogSetRecord]], adopt: Adopt, give_up: Callable[[], None]
    ) -> None:
        place = await Place.take(self._members, self._member, self._lease_seconds)
        self._cluster.places.add(place)
        try:
            while not place.is_lost:
                record, queue = await refresh(), await self._members.queue()
                members = [one.key for one in queue.candidates]
                if place.candidate.key not in members:
                    return
                shares = await self._shares.share(members, record.logs)
                if shares is not None:
                    self.begun_with = shares.begun_with
                    mine = {n for n, owner in enumerate(shares.owners) if owner == place.candidate.key}
                    await self._changed(place, queue.revision, adopt(mine, record))
        finally:
            self._cluster.places.discard(place)
            give_up()
            await place.leave("the member has left")

    async def _changed(self, place: Place, revision: int, ended: list[asyncio.Task[None]]) -> None:
        """Waits until a member joins or leaves, this member's place is lost, or one of these tasks has ended, but for
        at most LOOK_SECONDS."""
        own = [asyncio.create_task(one) for one in (self._moved(revision), _lost(place))]
        try:
            await asyncio.wait([*own, *ended], timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(own)

    async def _moved(self, revision: int) -> None:
        events = self._members.store.watch(keys.candidates(self._shares.key), after_revision=revision)
        with suppress(WatchCompacted):
            async with aclosing(events) as events:
                async for _ in events:
                    return


async def _lost(place: Place) -> None:
    await place.lost.wait()
