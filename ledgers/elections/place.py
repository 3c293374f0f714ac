"""A candidate's place in a queue: a key with a lease. The candidate renews the lease, and judges by its own clock
whether the lease may have expired."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from metadata.errors import WatchCompacted
from metadata.leases.held_key import GONE, HeldKey
from metadata.records.coordination.candidates import Candidate, CandidateStore, decode

from ..tasks import end_tasks

LOOK_SECONDS = 15.0
"""Interval at which a candidate reads the queue again even if its watch reports nothing, because a watch may be lost.
"""


class Place:
    """A place in the queue. `lost` is set when the place is lost for any reason, and `why_lost` gives the reason.

    The place counts as lost as soon as the lease may have expired in the store, judging by this process's clock. A
    process that was stopped learns this from `is_lost` as soon as it resumes; `lost` is set a moment later.
    """

    def __init__(self, candidates: CandidateStore, held: HeldKey) -> None:
        self._candidates = candidates
        self._held = held
        assert held.stands is not None
        self.candidate: Candidate = decode(held.stands)
        self.lost = asyncio.Event()
        self.why_lost = ""
        self._callbacks: list[Callable[[], object]] = []
        self._keeping = asyncio.create_task(self._keep())

    @classmethod
    async def take(cls, candidates: CandidateStore, name: str, lease_seconds: float) -> Place:
        """Joins the queue at its end. Raises MetadataError; in that case, nothing is left behind except a lease, which
        expires."""
        key, value = candidates.entry(name, time.time_ns() // 1_000_000)
        what = f"the place of {name} for {candidates.led}"
        held = HeldKey(candidates.store, key, lease_seconds, lambda _: value, what)
        try:
            await held.take()
        except BaseException:
            await held.give_up()
            raise
        return cls(candidates, held)

    @property
    def is_lost(self) -> bool:
        if why := self._held.why_lost:
            self._lose(why)
        return self.lost.is_set()

    async def is_first(self) -> bool:
        """Waits until no candidate is ahead of this one and returns True; returns False once the place is lost. Raises
        MetadataError."""
        first, lost = asyncio.ensure_future(self._until_first()), asyncio.ensure_future(self.lost.wait())
        try:
            await asyncio.wait([first, lost], return_when=asyncio.FIRST_COMPLETED)
            return first.done() and await first and not self.is_lost
        finally:
            await end_tasks([first, lost])

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Calls `callback` once, soon after the place is lost, but not when the candidate leaves the place."""
        if self.is_lost:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._callbacks.append(callback)

    async def leave(self, why: str) -> None:
        """Releases the place, which wakes the next candidate. If the store cannot be reached, the place is released
        when the lease expires."""
        self._callbacks.clear()
        self._lose(why)
        await end_tasks([self._keeping])
        await self._held.give_up()

    # ------------------------------------------------------------------------------------------------

    async def _until_first(self) -> bool:
        while True:
            queue = await self._candidates.queue()
            if self.candidate not in queue.candidates:
                self._lose(GONE)
                return False
            before = queue.before(self.candidate)
            if before is None:
                return True
            with suppress(TimeoutError, WatchCompacted):  # read the queue again
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._candidates.gone(before, queue.revision)

    async def _keep(self) -> None:
        await self._held.keep()
        self._lose(self._held.why_lost)

    def _lose(self, why: str) -> None:
        if not self.lost.is_set():
            self.why_lost = why
            self.lost.set()
            for callback in self._callbacks:
                asyncio.get_running_loop().call_soon(callback)
