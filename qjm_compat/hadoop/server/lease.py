"""Ensures one live daemon per name: the name is a key under a lease that the daemon renews."""

from __future__ import annotations

import asyncio
import logging
import math

from metadata.counting.outage import weight
from metadata.errors import BadRecord, KeyExists, LeaseLost, StoreUnavailable
from metadata.records.journal_node import JournalNodeRecord, decode
from metadata.store import Lease, MetadataStore, renewal_seconds

from ..errors import NameInUse

LEASES_TO_WAIT = 2
"""Lease times to wait for a dead daemon's lease to expire before its name counts as taken."""

log = logging.getLogger(__name__)


class NameLease:
    """Use: `take` once, `keep` until cancelled, then `give_up`."""

    def __init__(self, store: MetadataStore, record: JournalNodeRecord, lease_seconds: float) -> None:
        self._store = store
        self._record = record
        self._lease_seconds = lease_seconds
        self._lease: Lease | None = None
        self._renewed_at = -math.inf

    @property
    def is_held(self) -> bool:
        """Whether the lease is known to be held; one not renewed in time may have expired."""
        age = asyncio.get_running_loop().time() - self._renewed_at
        return self._lease is not None and age < self._lease_seconds

    async def take(self) -> None:
        """Acquires the name. Raises NameInUse while another daemon holds it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEASES_TO_WAIT * self._lease_seconds
        while not await self._try_to_take():
            if loop.time() > deadline:
                raise NameInUse(
                    f"another daemon serves as {self._record.name}; stop it, or give this one another name"
                )
            log.info("waiting for the lease of the last daemon named %s to run out", self._record.name)
            await asyncio.sleep(renewal_seconds(self._lease_seconds))

    async def keep(self) -> None:
        """Renews until cancelled. Raises NameInUse if another daemon got the name meanwhile: this one must end."""
        has_failed = False
        while True:
            await asyncio.sleep(renewal_seconds(self._lease_seconds, has_failed=has_failed))
            try:
                await self._renew()
                has_failed = False
            except StoreUnavailable as error:
                has_failed = True
                log.log(
                    weight(error),
                    "cannot renew the lease of %s, will try again: %s",
                    self._record.name,
                    error,
                )

    async def give_up(self) -> None:
        """Revokes the lease, so that the next daemon of the name need not wait."""
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                await self._store.revoke_lease(lease)
            except StoreUnavailable as error:
                log.warning(
                    "could not give up the lease of %s, it will run out: %s", self._record.name, error
                )

    async def _try_to_take(self) -> bool:
        asked_at = asyncio.get_running_loop().time()
        lease = await self._store.grant_lease(self._lease_seconds)
        if await self._stands_under(lease):
            self._lease, self._renewed_at = lease, asked_at
            return True
        await self._store.revoke_lease(lease)
        return False

    async def _stands_under(self, lease: Lease) -> bool:
        try:
            await self._store.create(self._record.key, self._record.encode(), lease=lease)
            return True
        except KeyExists:  # another's, or our own after a lost answer
            return await self._is_ours()

    async def _is_ours(self) -> bool:
        found = await self._store.get(self._record.key)
        try:
            return found is not None and decode(found.key, found.value).session == self._record.session
        except BadRecord as error:
            log.warning("%s", error)
            return False

    async def _renew(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        try:
            if self._lease is None:
                raise LeaseLost(0)
            await self._store.keep_lease(self._lease)
        except LeaseLost:
            self._lease = None
            log.warning("the lease of %s was lost; taking it again", self._record.name)
            if not await self._try_to_take():
                raise NameInUse(
                    f"another daemon serves as {self._record.name} by now: this one ends"
                ) from None
        else:
            self._renewed_at = asked_at
