"""A key held under a lease (rule M2): the holder takes it, keeps it, checks after each renewal that it still exists,
logs its loss, and releases it.

The key is ours if its value is one that we wrote, or tried to write, under the present lease. A nonce made with the
lease ensures that no value written by another client, or under another lease, is mistaken for ours. So if the answer to
a creation is lost, the key is still recognized as ours. A key that another client deleted is not ours, nor is a key
held under an older lease in a store that was rolled back.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from .. import settled_writes
from ..counting.outage import weight
from ..errors import KeyExists, LeaseLost, MetadataError, NoSuchKey, StoreUnavailable, VersionConflict
from ..store import Lease, MetadataStore, Versioned, renewal_seconds
from . import lease_clock

log = logging.getLogger(__name__)

GIVE_UP_SECONDS_MAX = 2.0
"""Maximum time for which a holder that releases its key tries to revoke the lease. After that, it leaves the lease to
expire."""

NOT_TAKEN = "it was not taken"
NOT_IN_TIME = "its lease was not renewed in time"
RUN_OUT = "its lease has run out"
GONE = "its key was deleted or changed, or the metadata went back"

Value = Callable[[bytes], bytes]
"""Makes the present value, given a nonce. Either this value or the key must contain the nonce."""


class HeldKey:
    """Call `take`, then `keep` or `renew` until the key is lost; after that it may be taken again. Call `give_up` at
    the end.

    `stands`: the key, with its value and version, as last seen or written; None before the key is taken, and after
    the key is given up or its loss is noticed. `changed`: set it to make `keep` publish a new value at once.
    """

    def __init__(self, store: MetadataStore, key: str, lease_seconds: float, value: Value, what: str) -> None:
        """`what`: the name of the key in log lines."""
        self.stands: Versioned | None = None
        self.changed = asyncio.Event()
        self._store = store
        self._key = key
        self._lease_seconds = lease_seconds
        self._value = value
        self._what = what
        self._lease: Lease | None = None
        self._nonce = b""
        # Values written under this lease that the key has, or may still get.
        self._written: set[bytes] = set()
        self._renewed_at = -math.inf
        self._why_lost = NOT_TAKEN

    @property
    def why_lost(self) -> str:
        """Why the key is lost. Empty while the key is held. A key whose lease was not renewed in time, by this
        process's clock, counts as lost, because the lease may have ended."""
        if self.stands is None:
            return self._why_lost
        return "" if self._seconds_left > 0 else NOT_IN_TIME

    @property
    def age_seconds(self) -> float:
        """Time since the start of the last renewal of the lease."""
        return lease_clock.now() - self._renewed_at

    def is_ours(self, found: Versioned) -> bool:
        """Returns whether we wrote this value, or tried to, under the present lease."""
        return found.value in self._written

    async def take(self) -> bool:
        """Creates the key; returns False if another holder has it.

        Raises StoreUnavailable, LeaseLost. If an earlier call created the key but did not receive the answer, a later
        call recognizes the key.
        """
        lease = await self._living_lease()
        value = self._value(self._nonce)
        self._written.add(value)
        try:
            version = await self._store.create(self._key, value, lease=lease)
        except KeyExists:
            self.changed.set()  # publish at once: the key may have an earlier value of ours
            return await self._is_there()
        self.stands = Versioned(self._key, value, version)
        return True

    async def renew(self) -> bool:
        """Renews the lease, checks that the key still exists, and publishes its value; returns False if the key is
        lost.

        Raises StoreUnavailable.
        """
        if self.stands is None or self._lease is None:
            return False
        self.changed.clear()
        asked_at, why = lease_clock.now(), GONE
        try:
            await self._store.keep_lease(self._lease)
        except LeaseLost:
            why = RUN_OUT
        if why is RUN_OUT or not await self._is_there():
            self._lease = None  # a store that was rolled back may grant the same lease to another client
            self._lost(why)
            return False
        self._renewed_at = asked_at
        await self.publish()
        return True

    async def publish(self) -> None:
        """Writes the value if it has changed; the key stays attached to the lease.

        Raises StoreUnavailable. In that case the next renewal determines whether the write succeeded. The renewal also
        detects whether the key now belongs to another holder.
        """
        value = self._value(self._nonce)
        if self.stands is None or value == self.stands.value:
            return
        self._written.add(value)
        try:
            version = await self._store.replace(self._key, value, self.stands.version)
        except (VersionConflict, NoSuchKey):  # the key is lost, or an earlier write of ours arrived late
            self.changed.set()
        else:
            self.stands, self._written = Versioned(self._key, value, version), {value}

    async def keep(self) -> None:
        """Keeps renewing the lease. Returns when the key is lost, or at the latest when the lease may have expired."""
        has_failed = False
        while (left := self._seconds_left) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._until_due(renewal_seconds(self._lease_seconds, has_failed=has_failed))
                    await self.renew()
                has_failed = False
            except StoreUnavailable as error:
                has_failed = True
                log.log(weight(error), "cannot renew the lease of %s, will try again: %s", self._what, error)
            except TimeoutError:
                break
        if self.stands is not None:
            self._lost(NOT_IN_TIME)  # the lease may still exist, so `take` tries to renew it

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[bool]:
        """Takes the key, keeps it inside the block, and releases it at the end; yields False if another holder has
        it."""
        keeping = None
        try:
            is_ours = await self.take()
            keeping = asyncio.create_task(self.keep())
            yield is_ours
        finally:
            if keeping is not None:
                keeping.cancel()
                await asyncio.wait([keeping])
            await self.give_up()

    async def give_up(self) -> None:
        """Ends the lease, which deletes the key. If the store cannot be reached, the lease is left to expire."""
        lease, self._lease, self.stands = self._lease, None, None
        if lease is None:
            return
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS_MAX):
                await self._store.revoke_lease(lease)
        except (MetadataError, TimeoutError) as error:
            log.log(weight(error), "could not release %s, its lease will run out: %r", self._what, error)

    @property
    def _seconds_left(self) -> float:
        """Seconds until the store may have ended the lease; 0 if nothing is held."""
        if self.stands is None or self._lease is None:
            return 0.0
        return self._lease.ttl_seconds - self.age_seconds

    async def _living_lease(self) -> Lease:
        """Returns the present lease after renewing it, or a new lease."""
        asked_at = lease_clock.now()
        if self._lease is not None:
            try:
                await self._store.keep_lease(self._lease)
            except LeaseLost:
                self._lease = None
        if self._lease is None:
            self._lease = await self._store.grant_lease(self._lease_seconds)
            self._nonce, self._written = settled_writes.new_nonce(), set()
        self._renewed_at = asked_at
        return self._lease

    async def _is_there(self) -> bool:
        found = await self._store.get(self._key)
        if found is not None and self.is_ours(found):
            self.stands = found
            return True
        return False

    async def _until_due(self, seconds: float) -> None:
        with suppress(TimeoutError):  # the usual case: nothing to publish
            async with asyncio.timeout(seconds):
                await self.changed.wait()

    def _lost(self, why: str) -> None:
        self.stands, self._why_lost = None, why
        log.warning("%s was lost: %s", self._what, why)
