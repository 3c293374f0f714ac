"""Looks up in the metadata who may write to a ledger that this bookie has not seen yet.

If the first client were believed, one without the password that comes before the writer would own the ledger at this
bookie. After the first request what is in the log counts, and the metadata is not asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from metadata.errors import MetadataError
from metadata.records.ledger_store import LedgerStore

from ...storage.bookie import Bookie
from ...wire.messages import Status

LOOKUP_SECONDS_MAX = 3.0
"""How long a stream waits for the metadata before its new ledgers are refused for now."""

LOOKUPS_AT_ONCE_MAX = 16
"""Concurrent look-ups of all messages. A message may bring a thousand new ledgers: one by one they would take as many
round trips, and without a bound clients that name made-up ledgers would flood the metadata through us."""


class Verifiers:
    """Looks up the verifiers of ledgers that the bookie does not know."""

    def __init__(self, bookie: Bookie, ledgers: LedgerStore) -> None:
        self._bookie = bookie
        self._ledgers = ledgers
        self._lookups = asyncio.Semaphore(LOOKUPS_AT_ONCE_MAX)

    async def refused(self, ledger_ids: Iterable[int]) -> dict[int, tuple[Status, str]]:
        """Makes sure that each ledger's verifier is known; returns those that cannot be written to, and why.

        The result holds until the caller awaits something: a ledger may be deleted at any time.
        """
        wanted, refused = dict.fromkeys(ledger_ids), dict[int, tuple[Status, str]]()
        while unknown := [n for n in wanted if n not in refused and self._bookie.verifier_of(n) is None]:
            for first in range(0, len(unknown), LOOKUPS_AT_ONCE_MAX):
                some = unknown[first : first + LOOKUPS_AT_ONCE_MAX]
                found = await asyncio.gather(*map(self._learn, some))
                told = zip(some, found, strict=True)
                refused |= {ledger_id: why for ledger_id, why in told if why is not None}
        return refused

    async def _learn(self, ledger_id: int) -> tuple[Status, str] | None:
        try:
            async with self._lookups, asyncio.timeout(LOOKUP_SECONDS_MAX):
                forgets = self._bookie.states.forgets
                found = await self._ledgers.read(ledger_id)
        except (MetadataError, TimeoutError) as error:
            return Status.UNKNOWN, f"the metadata does not tell who may write to it: {error}"
        if forgets != self._bookie.states.forgets:
            return None  # forgotten meanwhile, perhaps this one: what was read may be older than its deletion
        if found is None:
            return Status.UNAUTHORIZED, "there is no such ledger in the metadata"
        self._bookie.learn(found.record)
        return None
