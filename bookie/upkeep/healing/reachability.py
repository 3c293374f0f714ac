"""Health probes: the auditor calls each living bookie at the address that it advertises.

A registration shows only that a bookie can reach the metadata. With a wrong `--advertise`, or a firewall in front of
its port, the bookie is alive but no client can use it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

from metadata.healing.lease_lock import Unreachable
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration

from ..repair_client import Peers

CALLS_MAX = 16
"""Maximum number of concurrent calls."""

UNREACHABLE_NAMED_MAX = 32
"""Maximum number of unreachable bookies reported."""

WHY_CHARACTERS_MAX = 200


class Reachability:
    """Probes bookies every `seconds` (0: never) in a separate task, because a probe of a hung bookie takes seconds to
    fail.

    A bookie counts as unreachable only after two failures in a row at the same address: after only one, the bookie
    may just have been restarted.
    """

    def __init__(self, peers: Peers, seconds: float) -> None:
        self._peers = peers
        self._seconds = seconds
        self._failed_before: frozenset[tuple[BookieRef, str]] = frozenset()
        self._began_at = -math.inf
        self.probes: asyncio.Task[dict[str, Unreachable]] | None = None

    def look(self, living: Mapping[BookieRef, Registration]) -> dict[str, Unreachable] | None:
        """Starts a round of probes if one is due. Returns the result of a finished round, once; otherwise None. Raises
        MetadataError."""
        now = asyncio.get_running_loop().time()
        if self.probes is not None and self.probes.done():
            ended, self.probes = self.probes, None
            return ended.result()
        if self.probes is None and self._seconds and now - self._began_at >= self._seconds:
            self._began_at = now
            self.probes = asyncio.create_task(self._unreachable(living))
        return None

    async def stop(self) -> None:
        """Cancels running probes."""
        if self.probes is not None:
            self.probes.cancel()
            await asyncio.gather(self.probes, return_exceptions=True)

    async def _unreachable(self, living: Mapping[BookieRef, Registration]) -> dict[str, Unreachable]:
        """Calls each bookie; returns, by name, those that failed at the same address in both this round and the
        previous one."""
        places = asyncio.Semaphore(CALLS_MAX)
        bookies = sorted(living)
        calls = [asyncio.create_task(self._call(one, places)) for one in bookies]
        try:
            answers = await asyncio.gather(*calls)
        finally:
            for call in calls:
                call.cancel()
        failed = {
            (bookie, living[bookie].address): why for bookie, why in zip(bookies, answers, strict=True) if why
        }
        again = [(place, why) for place, why in failed.items() if place in self._failed_before]
        self._failed_before = frozenset(failed)
        return {
            bookie.bookie_id: Unreachable(address, why[:WHY_CHARACTERS_MAX])
            for (bookie, address), why in again[:UNREACHABLE_NAMED_MAX]
        }

    async def _call(self, bookie: BookieRef, places: asyncio.Semaphore) -> str:
        async with places:
            return await self._peers.why_unreachable(bookie)
