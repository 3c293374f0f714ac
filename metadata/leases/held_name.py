"""A name that only one process holds at a time: a key under a lease, which the process takes again after losing it
(rule M2)."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod

from .. import settled_writes
from ..counting.outage import weight
from ..errors import BadRecord, LeaseLost, StoreUnavailable
from ..store import MetadataStore, Versioned, renewal_seconds
from . import lease_clock
from .held_key import HeldKey

log = logging.getLogger(__name__)

LEASES_TO_WAIT = 2
"""Time to wait for another process's key to expire before the name counts as taken, as a multiple of the lease time."""


class HeldName(ABC):
    """Call `take` once, `keep` until cancelled, then `give_up`."""

    leases_to_wait_again = LEASES_TO_WAIT
    """Used in place of LEASES_TO_WAIT when a process that has lost the name takes it again."""

    def __init__(self, store: MetadataStore, key: str, lease_seconds: float, owner: bytes, what: str) -> None:
        """`owner`: bytes unique among living processes, by which this process recognizes its own key under an older
        lease; b"" if it has none. `what`: how log lines refer to the name."""
        self._store = store
        self._key = key
        self._lease_seconds = lease_seconds
        self._owner = owner
        self._what = what
        self.held = HeldKey(store, key, lease_seconds, lambda nonce: self._value(owner + nonce), what)

    async def take(self) -> None:
        """Takes the name; returns once it is held. Raises `_taken` if another living process has it; StoreUnavailable
        or LeaseLost, after which it may be called again."""
        await self._take(LEASES_TO_WAIT)

    async def keep(self) -> None:
        """Renews the lease until cancelled, and takes the name again after losing it. Raises `_taken` if another
        process has taken it in the meantime."""
        while True:
            await self.held.keep()
            await self._take_again()

    async def give_up(self) -> None:
        """Releases the name at once, so that no other process has to wait for the lease."""
        await self.held.give_up()

    async def _take_again(self) -> None:
        while True:
            try:
                await self._take(self.leases_to_wait_again)
                break
            except (StoreUnavailable, LeaseLost) as error:
                log.log(weight(error), "cannot take %s again yet: %s", self._what, error)
            await asyncio.sleep(renewal_seconds(self._lease_seconds, has_failed=True))
        log.warning("took %s again after losing it", self._what)

    async def _take(self, leases_to_wait: int) -> None:
        deadline = lease_clock.now() + leases_to_wait * self._lease_seconds
        while not await self._is_taken():
            if lease_clock.now() >= deadline:
                raise self._taken()
            log.info("waiting for the old lease of %s to expire", self._what)
            await asyncio.sleep(renewal_seconds(self._lease_seconds))

    async def _is_taken(self) -> bool:
        """Takes the key, even if it still exists under an older lease of this process; returns False if another process
        has it."""
        if await self.held.take():
            return True
        found = await self._store.get(self._key)
        if found is not None:
            if not self._is_our_past(found):
                return False
            await settled_writes.delete_unless_changed(self._store, found.key, found.version)
        return await self.held.take()

    def _is_our_past(self, found: Versioned) -> bool:
        try:
            session = self._session_of(found)
        except BadRecord as error:  # another process's key, which expires with its lease
            log.warning("%s", error)
            return False
        return bool(self._owner) and session[: -settled_writes.NONCE_BYTES] == self._owner

    @abstractmethod
    def _value(self, session: bytes) -> bytes:
        """Returns the present value, which contains this session."""

    @abstractmethod
    def _session_of(self, found: Versioned) -> bytes:
        """Returns the session contained in a value. Raises BadRecord."""

    @abstractmethod
    def _taken(self) -> Exception:
        """Returns the error to raise if another process has the name."""
