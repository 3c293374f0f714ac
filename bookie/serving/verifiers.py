"""Who may write to a ledger that this bookie has not seen yet: its record in the metadata says.

Were the first to ask believed, a stranger who comes before the writer would own the ledger at this bookie.
After the first request what is in the log counts, and the metadata is not asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from metadata.errors import MetadataError
from metadata.records.ledger_store import LedgerStore

from ..storage.bookie import Bookie
from ..wire.messages import Status

LOOKUP_SECONDS_MAX = 3.0
"""How long a stream waits for the metadata before its new ledgers are refused for now."""


class Verifiers:
    """Looks up the verifiers of ledgers that the bookie does not know."""

    def __init__(self, bookie: Bookie, ledgers: LedgerStore) -> None:
        self._bookie = bookie
        self._ledgers = ledgers

    async def refused(self, ledger_ids: Iterable[int]) -> dict[int, tuple[Status, str]]:
        """Makes sure that each ledger's verifier is known; those that cannot be written to, and why.

        What it says holds until the caller awaits something: a ledger may be deleted at any time.
        """
        wanted, refused = dict.fromkeys(ledger_ids), dict[int, tuple[Status, str]]()
        while unknown := [n for n in wanted if n not in refused and not self._bookie.knows_verifier(n)]:
            for ledger_id in unknown:
                why = await self._learn(ledger_id)
                if why is not None:
                    refused[ledger_id] = why
        return refused

    async def _learn(self, ledger_id: int) -> tuple[Status, str] | None:
        forgets = self._bookie.states.forgets
        try:
            async with asyncio.timeout(LOOKUP_SECONDS_MAX):
                found = await self._ledgers.read(ledger_id)
        except (MetadataError, TimeoutError) as error:
            return Status.UNKNOWN, f"the metadata does not tell who may write to it: {error}"
        if forgets != self._bookie.states.forgets:
            return None  # perhaps this very one: what was read may be older than its deletion
        if found is None:
            return Status.UNAUTHORIZED, "there is no such ledger in the metadata"
        self._bookie.learn_verifier(ledger_id, found.record.verifier)
        return None
