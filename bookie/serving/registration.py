"""Registers a bookie in the metadata under a lease, while it is alive (rule M2).

The bookie renews the lease, registers anew when the store comes back after losing it, and never takes a living
bookie's name. It takes over at once what its own last process left, if that has certainly ended: it registered under
the very lock that we now hold. The same directory locked on another machine, through a file system that does not
share locks, is another lock, and such a bookie waits for the lease.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from metadata import settled_writes
from metadata.counting.outage import weight
from metadata.errors import BadRecord, KeyExists, LeaseLost, NoSuchKey, StoreUnavailable, VersionConflict
from metadata.records.registration import Registration, decode
from metadata.store import Lease, MetadataStore, Versioned, renewal_seconds

from ..errors import NameTaken
from .directory import COOKIE

log = logging.getLogger(__name__)

LEASES_TO_WAIT = 2
"""How many lease times to wait for another's registration to run out before the name counts as taken."""


BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def lock_identity(data_directory: Path) -> bytes:
    """Identifies the lock that a bookie of this directory holds: of this running kernel, on this very file.

    Two processes cannot hold the same one at once. b"" where the kernel has no boot id.
    """
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        return b""
    cookie = os.stat(data_directory / COOKIE)
    return hashlib.sha256(f"{boot} {cookie.st_dev} {cookie.st_ino}".encode()).digest()


class Registrar:
    """Keeps one registration. `register` once, then `keep` until cancelled, then `unregister`.

    A caller that gives a `lock_identity` holds that lock from before `register` until after `unregister`.
    """

    def __init__(
        self,
        store: MetadataStore,
        registration: Registration,
        lease_seconds: float,
        *,
        lock_identity: bytes = b"",
    ) -> None:
        self._store = store
        self._lock_identity = lock_identity
        self._registration = registration
        self._lease_seconds = lease_seconds
        self._lease: Lease | None = None
        self._is_registered = False
        self._renewed_at = -math.inf
        self._changed = asyncio.Event()

    async def register(self) -> None:
        """Returns when the registration stands. Raises NameTaken while another living bookie has the name.

        Called again after an error, it goes on with the same lease: a creation whose answer was lost may stand under
        it.
        """
        self._is_registered = False
        deadline = asyncio.get_running_loop().time() + LEASES_TO_WAIT * self._lease_seconds
        if self._lease is None:
            await self._take_lease()
        while not await self._try_to_take():
            if asyncio.get_running_loop().time() > deadline:
                raise NameTaken(
                    f"another bookie is registered as {self._registration.bookie}; stop it or use another name"
                )
            log.info("waiting for the old registration of %s to run out", self._registration.bookie)
            await asyncio.sleep(renewal_seconds(self._lease_seconds))
            await self._keep_or_replace_lease()
        self._is_registered = True
        self._renewed_at = asyncio.get_running_loop().time()

    @property
    def is_registered(self) -> bool:
        """As far as is known: a lease that was not renewed in time has run out."""
        return self._is_registered and self.lease_age_seconds < self._lease_seconds

    @property
    def lease_age_seconds(self) -> float:
        """Time since the last renewal of the lease."""
        return asyncio.get_running_loop().time() - self._renewed_at

    async def _keep_or_replace_lease(self) -> None:
        assert self._lease is not None
        try:
            await self._store.keep_lease(self._lease)
        except LeaseLost:  # it ran out meanwhile
            await self._take_lease()

    async def _take_lease(self) -> None:
        """Takes a lease, and a new session: what stands under our older lease ends with that, and is not ours now."""
        self._lease = await self._store.grant_lease(self._lease_seconds)
        session = self._lock_identity + settled_writes.new_nonce()
        self._registration = replace(self._registration, session=session)

    async def _try_to_take(self) -> bool:
        assert self._lease is not None
        key, value = self._registration.key, self._registration.encode()
        try:
            await self._store.create(key, value, lease=self._lease)
            return True
        except KeyExists:
            return await self._is_ours_or_gone(key, value)

    async def _is_ours_or_gone(self, key: str, value: bytes) -> bool:
        """Whether we created the key, and the answer was lost (ambiguous CAS); deletes what our last process left."""
        found = await self._store.get(key)
        if found is None:
            return False
        other = _decoded(key, found.value)
        if other is None:
            return False  # unreadable, another's: it ends with its lease
        if other.session == self._registration.session:
            if found.value != value:
                self._changed.set()  # created before it was changed
            return True
        if self._is_our_last_life(other):
            try:
                await self._store.delete(key, found.version)
            except (VersionConflict, NoSuchKey):  # it ran out by itself
                pass
            return await self._try_to_take()
        return False

    def _is_our_last_life(self, other: Registration) -> bool:
        same_lock = (
            bool(self._lock_identity) and other.session[: -settled_writes.NONCE_BYTES] == self._lock_identity
        )
        return same_lock and other.bookie == self._registration.bookie

    @property
    def registration(self) -> Registration:
        """As it is, or is about to be published."""
        return self._registration

    def set_read_only(self, read_only: bool) -> None:
        """Has `keep` publish, as soon as it can, whether the bookie takes new entries (rule B4)."""
        self._registration = replace(self._registration, writable=not read_only)
        self._changed.set()

    def set_disk(self, total_bytes: int, free_bytes: int) -> None:
        """Has `keep` publish the disk's size and free space."""
        self._registration = replace(
            self._registration, disk_bytes_total=total_bytes, disk_bytes_free=free_bytes
        )
        self._changed.set()

    def set_amiss(self, amiss: Mapping[str, str]) -> None:
        """Has `keep` publish what is wrong with the bookie, by the names of facts, where that has changed."""
        if amiss != self._registration.amiss:
            self._registration = replace(self._registration, amiss=amiss)
            self._changed.set()

    async def keep(self) -> None:
        """Renews the lease until cancelled; registers anew when it was lost. Raises NameTaken."""
        has_failed = False
        while True:
            if has_failed:
                await asyncio.sleep(renewal_seconds(self._lease_seconds, has_failed=True))
            else:
                await self._until_due()
            has_failed = not await self._try_to_keep()

    async def _until_due(self) -> None:
        with suppress(TimeoutError):  # the usual case: time to renew
            async with asyncio.timeout(renewal_seconds(self._lease_seconds)):
                await self._changed.wait()

    async def _try_to_keep(self) -> bool:
        """Renews or registers, and publishes what has changed; False: it must be tried again. Raises NameTaken."""
        try:
            if not await self._is_renewed():
                await self.register()
            if self._changed.is_set():
                await self._publish()
        except LeaseLost:
            self._lease = None
            return False
        except StoreUnavailable as error:
            log.log(weight(error), "cannot renew the registration, will try again: %s", error)
            return False
        return True

    async def _publish(self) -> None:
        """Writes the changed registration over the one under our lease; the lease stays attached."""
        self._changed.clear()
        key, mine = self._registration.key, self._registration
        try:
            found = await self._ours()
            if found is None:
                self._is_registered = False  # lost meanwhile: the next renewal registers anew
            elif found.value != mine.encode():
                await self._store.replace(key, mine.encode(), found.version)
        except (VersionConflict, NoSuchKey):
            self._is_registered = False
        except StoreUnavailable:
            self._changed.set()
            raise

    async def _is_renewed(self) -> bool:
        """Renews the lease; False where there is none, or the registration does not stand under it."""
        try:
            if self._lease is not None:
                asked_at = asyncio.get_running_loop().time()
                await self._store.keep_lease(self._lease)
                self._renewed_at = asked_at
                self._is_registered = self._is_registered and await self._ours() is not None
        except LeaseLost:
            log.warning("the registration was lost; registering again")
            self._lease = None
        return self._lease is not None and self._is_registered

    async def _ours(self) -> Versioned | None:
        """The key where it is ours: a store that was restored from a backup may have kept our lease alone."""
        key, session = self._registration.key, self._registration.session
        found = await self._store.get(key)
        stands = None if found is None else _decoded(key, found.value)
        return found if stands is not None and stands.session == session else None

    async def unregister(self) -> None:
        """Revokes the registration at once, so that no client tries a stopped bookie."""
        if self._lease is not None:
            try:
                await self._store.revoke_lease(self._lease)
            except StoreUnavailable as error:
                log.warning("could not give up the registration, it will run out: %s", error)
            self._lease = None


def _decoded(key: str, value: bytes) -> Registration | None:
    """Decodes a registration; None for one that a newer or unknown program has written."""
    try:
        return decode(key, value)
    except BadRecord as error:
        log.warning("%s", error)
        return None
