"""One candidate's place in a queue: a key under a lease that is renewed, and judged by the candidate's own clock."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from metadata.counting.outage import weight
from metadata.errors import LeaseLost, MetadataError, StoreUnavailable, WatchCompacted
from metadata.records.coordination import lease_clock
from metadata.records.coordination.candidates import Candidate, CandidateStore
from metadata.store import Lease, MetadataStore, renewal_seconds

from ..tasks import end_tasks

log = logging.getLogger(__name__)

LOOK_SECONDS = 15.0
"""How soon a candidate looks at the queue again, whatever its watch tells: a watch may be lost."""

LEAVE_SECONDS_MAX = 2.0
"""How long one that leaves tries to say so; after that its lease runs out."""


class Place:
    """A place that was taken. `lost` is set once it is over, for whatever reason, and `why_lost` says the reason.

    It is over where the store may have ended the lease, as this process's clock tells; a process that was stopped
    finds that when it goes on (`is_lost`), and `lost` is set a moment later.
    """

    def __init__(
        self, candidates: CandidateStore, candidate: Candidate, lease: Lease, asked_at: float
    ) -> None:
        self._candidates = candidates
        self._lease = lease
        self._until = asked_at + lease.ttl_seconds
        self.candidate = candidate
        self.lost = asyncio.Event()
        self.why_lost = ""
        self._callbacks: list[Callable[[], object]] = []
        self._keeping = asyncio.create_task(self._keep())

    @classmethod
    async def take(cls, candidates: CandidateStore, name: str, lease_seconds: float) -> Place:
        """Queues up, at the end. Raises MetadataError; then nothing is left but a lease that runs out."""
        asked_at = lease_clock.now()
        lease = await candidates.store.grant_lease(lease_seconds)
        try:
            candidate = await candidates.enter(name, time.time_ns() // 1_000_000, lease)
        except BaseException:
            await _revoke(candidates.store, lease)
            raise
        return cls(candidates, candidate, lease, asked_at)

    @property
    def is_lost(self) -> bool:
        if not self.lost.is_set() and lease_clock.now() >= self._until:
            self._lose("its lease was not renewed in time")
        return self.lost.is_set()

    async def is_first(self) -> bool:
        """Waits until nobody is before it any more: True; False once it is lost. Raises MetadataError."""
        first, lost = asyncio.ensure_future(self._until_first()), asyncio.ensure_future(self.lost.wait())
        try:
            await asyncio.wait([first, lost], return_when=asyncio.FIRST_COMPLETED)
            return first.done() and await first and not self.is_lost
        finally:
            await end_tasks([first, lost])

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Calls back once, soon after it is lost; not where it is left."""
        if self.is_lost:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._callbacks.append(callback)

    async def leave(self, why: str) -> None:
        """Gives the place up, which wakes the next one. What cannot be said to the store runs out by itself."""
        self._callbacks.clear()
        self._lose(why)
        await end_tasks([self._keeping])
        await _revoke(self._candidates.store, self._lease)

    # ------------------------------------------------------------------------------------------------

    async def _until_first(self) -> bool:
        while True:
            queue = await self._candidates.queue()
            if self.candidate not in queue.candidates:
                self._lose("its place in the queue is gone")
                return False
            before = queue.before(self.candidate)
            if before is None:
                return True
            with suppress(TimeoutError, WatchCompacted):  # then it looks again
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._candidates.gone(before, queue.revision)

    async def _keep(self) -> None:
        """Renews the lease until it is lost."""
        has_failed = False
        try:
            async with asyncio.timeout(self._until - lease_clock.now()) as running_out:
                while True:
                    await asyncio.sleep(renewal_seconds(self._lease.ttl_seconds, has_failed=has_failed))
                    has_failed = not await self._is_renewed()
                    if not has_failed:
                        left = self._until - lease_clock.now()
                        running_out.reschedule(asyncio.get_running_loop().time() + left)
        except TimeoutError:
            self._lose("its lease could not be renewed in time")
        except LeaseLost:
            self._lose("its lease has run out")
        except _PlaceGone:
            self._lose("its place in the queue is gone")

    async def _is_renewed(self) -> bool:
        """Renews once; False where the store does not answer. Raises LeaseLost, _PlaceGone."""
        asked_at = lease_clock.now()
        try:
            await self._candidates.store.keep_lease(self._lease)
            if not await self._candidates.stands(self.candidate):
                raise _PlaceGone
        except StoreUnavailable as error:
            log.log(weight(error), "%s cannot renew its lease, will try again: %s", self._name, error)
            return False
        self._until = asked_at + self._lease.ttl_seconds
        return True

    def _lose(self, why: str) -> None:
        if not self.lost.is_set():
            self.why_lost = why
            self.lost.set()
            for callback in self._callbacks:
                asyncio.get_running_loop().call_soon(callback)

    @property
    def _name(self) -> str:
        return f"{self.candidate.name} ({self._candidates.led})"


class _PlaceGone(Exception):
    """Somebody has deleted the key, or the store was restored."""


async def _revoke(store: MetadataStore, lease: Lease) -> None:
    try:
        async with asyncio.timeout(LEAVE_SECONDS_MAX):
            await store.revoke_lease(lease)
    except (MetadataError, TimeoutError) as error:
        log.info("a lease of %g s could not be given up, it will run out: %r", lease.ttl_seconds, error)
