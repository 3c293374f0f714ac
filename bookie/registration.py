"""Being registered while alive (rule M2).

The registration is a key under a lease. It is kept by renewing the lease, retaken when the store
comes back after losing it, and never taken from a living bookie of the same name. A registration
left by this bookie's own last life is taken over at once where that life is certainly over: same
incarnation, same address. We hold the directory's lock and the address itself, so no other
process can.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from metadata import bookie_registry, settle
from metadata.bookie_registry import Registration
from metadata.errors import KeyExists, LeaseLost, NoSuchKey, StoreUnavailable, VersionConflict
from metadata.store import Lease, MetadataStore

from .errors import NameTaken

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 3
"""A lease survives two lost renewals."""

LEASES_TO_WAIT = 2
"""How many lease times a foreign registration is given to run out before the name counts as taken."""


class Registrar:
    """Keeps one registration. `register` once, then `keep` until cancelled, then `unregister`."""

    def __init__(self, store: MetadataStore, registration: Registration, lease_seconds: float) -> None:
        self._store = store
        self._registration = replace(registration, session=settle.new_nonce())
        self._lease_seconds = lease_seconds
        self._lease: Lease | None = None
        self._is_registered = False

    async def register(self) -> None:
        """Returns when the registration stands. Raises NameTaken while another bookie lives under it.

        Called again after an error, it goes on with the same lease: a creation whose answer was lost
        may stand under it.
        """
        self._is_registered = False
        deadline = asyncio.get_running_loop().time() + LEASES_TO_WAIT * self._lease_seconds
        if self._lease is None:
            self._lease = await self._store.grant_lease(self._lease_seconds)
        while not await self._try_to_take():
            if asyncio.get_running_loop().time() > deadline:
                raise NameTaken(
                    f"another bookie is registered as {self._registration.bookie}; stop it or use another name"
                )
            log.info("waiting for the old registration of %s to run out", self._registration.bookie)
            await asyncio.sleep(self._lease_seconds / RENEWALS_PER_LEASE)
            await self._store.keep_lease(self._lease)
        self._is_registered = True

    async def _try_to_take(self) -> bool:
        assert self._lease is not None
        key, value = self._registration.key, self._registration.encode()
        try:
            await self._store.create(key, value, lease=self._lease)
            return True
        except KeyExists:
            return await self._is_ours_or_gone(key, value)

    async def _is_ours_or_gone(self, key: str, value: bytes) -> bool:
        """Whether the key is our own creation whose answer was lost; removes what our last life left."""
        found = await self._store.get(key)
        if found is None:
            return False
        if found.value == value:
            return True
        other = bookie_registry.decode(key, found.value)
        same_place = other.address == self._registration.address
        if other.bookie == self._registration.bookie and same_place:
            try:
                await self._store.delete(key, found.version)
            except (VersionConflict, NoSuchKey):  # it ran out by itself
                pass
            return await self._try_to_take()
        return False

    async def keep(self) -> None:
        """Renews the lease until cancelled; registers anew when it was lost. Raises NameTaken."""
        while True:
            await asyncio.sleep(self._lease_seconds / RENEWALS_PER_LEASE)
            try:
                if not await self._is_renewed():
                    await self.register()
            except LeaseLost:
                self._lease = None
            except StoreUnavailable as error:
                log.warning("cannot renew the registration, will try again: %s", error)

    async def _is_renewed(self) -> bool:
        """Renews the lease; False where there is none, or the registration under it was never finished."""
        try:
            if self._lease is not None:
                await self._store.keep_lease(self._lease)
        except LeaseLost:
            log.warning("the registration was lost; registering again")
            self._lease = None
        return self._lease is not None and self._is_registered

    async def unregister(self) -> None:
        """Gives the registration up at once, so that no client tries a stopped bookie."""
        if self._lease is not None:
            try:
                await self._store.revoke_lease(self._lease)
            except StoreUnavailable as error:
                log.warning("could not give up the registration, it will run out: %s", error)
            self._lease = None
