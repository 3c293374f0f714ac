"""A key held under a lease: taken, kept, found again to stand after each renewal, lost aloud, given up (rule M2).

It is ours where its value is one that we wrote, or tried to write, under the present lease; a nonce that is made with
the lease keeps all others from being equal. So a creation whose answer was lost is found to be ours. A key that
somebody deleted, or that a store which went back has as it was under an older lease, is not.
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
"""How long a holder that gives its key up tries to say so; after that the lease runs out."""

NOT_TAKEN = "it was not taken"
NOT_IN_TIME = "its lease was not renewed in time"
RUN_OUT = "its lease has run out"
GONE = "its key was deleted or changed, or the metadata went back"

Value = Callable[[bytes], bytes]
"""Makes the value as it is to be now. The nonce that it is given has to be in it, or another one in the key."""


class HeldKey:
    """`take`, then `keep` or `renew` until it is lost, when it may be taken again; `give_up` at last.

    `stands`: the key as it was seen or written last, while it is held. `changed`: set by whoever wants `keep` to
    publish another value at once.
    """

    def __init__(self, store: MetadataStore, key: str, lease_seconds: float, value: Value, what: str) -> None:
        """`what` names it in log lines."""
        self.stands: Versioned | None = None
        self.changed = asyncio.Event()
        self._store = store
        self._key = key
        self._lease_seconds = lease_seconds
        self._value = value
        self._what = what
        self._lease: Lease | None = None
        self._nonce = b""
        self._written: set[bytes] = set()  # under this lease; of these one may stand, or come to stand yet
        self._renewed_at = -math.inf
        self._why_lost = NOT_TAKEN

    @property
    def why_lost(self) -> str:
        """Empty while it is held, as far as this process's clock tells: what was not renewed in time may be over."""
        if self.stands is None:
            return self._why_lost
        return "" if self._seconds_left > 0 else NOT_IN_TIME

    @property
    def age_seconds(self) -> float:
        """Time since the last renewal of the lease was asked for."""
        return lease_clock.now() - self._renewed_at

    def is_ours(self, found: Versioned) -> bool:
        """Whether we wrote this value, or tried to, under the present lease."""
        return found.value in self._written

    async def take(self) -> bool:
        """Creates the key; False where another's stands there.

        Raises StoreUnavailable, LeaseLost. Called again then, it finds a creation whose answer was lost.
        """
        lease = await self._living_lease()
        value = self._value(self._nonce)
        self._written.add(value)
        try:
            version = await self._store.create(self._key, value, lease=lease)
        except KeyExists:
            self.changed.set()  # an earlier value of ours may stand
            return await self._is_there()
        self.stands = Versioned(self._key, value, version)
        return True

    async def renew(self) -> bool:
        """Renews the lease, looks whether the key still stands, and publishes its value; False where it is lost.

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
            self._lease = None  # a store that went back may give it to somebody else
            self._lost(why)
            return False
        self._renewed_at = asked_at
        await self.publish()
        return True

    async def publish(self) -> None:
        """Writes the value if it has changed; the lease stays attached.

        Raises StoreUnavailable. What came of it then, or where the key is another's, the next renewal finds.
        """
        value = self._value(self._nonce)
        if self.stands is None or value == self.stands.value:
            return
        self._written.add(value)
        try:
            version = await self._store.replace(self._key, value, self.stands.version)
        except (VersionConflict, NoSuchKey):  # lost, or an earlier write of ours came late
            self.changed.set()
        else:
            self.stands, self._written = Versioned(self._key, value, version), {value}

    async def keep(self) -> None:
        """Renews until it is lost, and returns then: at the latest when the lease may have run out."""
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
            self._lost(NOT_IN_TIME)  # the lease may live: `take` tries to renew it

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[bool]:
        """Takes the key, keeps it inside the block, and gives it up; yields False where another's stands there."""
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
        """Ends the lease, and the key with it. What cannot be said to the store runs out by itself."""
        lease, self._lease, self.stands = self._lease, None, None
        if lease is None:
            return
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS_MAX):
                await self._store.revoke_lease(lease)
        except (MetadataError, TimeoutError) as error:
            log.log(weight(error), "could not give up %s, it will run out: %r", self._what, error)

    @property
    def _seconds_left(self) -> float:
        """Until the store may have ended the lease; 0 where nothing is held."""
        if self.stands is None or self._lease is None:
            return 0.0
        return self._lease.ttl_seconds - self.age_seconds

    async def _living_lease(self) -> Lease:
        """The present lease, renewed, or another one."""
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
