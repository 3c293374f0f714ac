"""Asks bookies outside a ledger's last ensemble what they know of it.

The metadata may have gone back to an older copy of itself (rule W8), with an ensemble that the writer has left since:
its bookies agree on an end that is too early. Those that took the later entries hold the ledger, and have the writer's
last-add-confirmed, with its digest.

This is a safety net below the hold (`metadata/backup/hold.py`), not a quorum: a bookie that cannot be reached, or has
not registered again since the store went back, says nothing.
"""

from __future__ import annotations

import asyncio
import logging

from bookie.wire import LacReply
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..cluster import Cluster
from ..errors import BookieUnavailable
from .requests import LedgerRequests

log = logging.getLogger(__name__)

WITNESSES_AT_ONCE_MAX = 32
"""Bookies asked at the same time, without those that have had `WITNESS_TURN_SECONDS` already."""

WITNESS_TURN_SECONDS = 0.1
"""After that the next bookie is asked beside one that has not answered: some that hang are not to keep all others
unasked."""

WITNESSES_SECONDS_MAX = 1.0
"""From the list of bookies until it goes on without those that have not answered."""

WITNESS_READ_SECONDS_MAX = 2.0
"""For one page of a bookie that holds the ledger, and does not prove the record to be older than the ledger."""


class Witnesses:
    """The bookies that are registered, and not in the last ensemble."""

    def __init__(self, cluster: Cluster, record: LedgerRecord, requests: LedgerRequests) -> None:
        self._cluster = cluster
        self._record = record
        self._requests = requests
        self._replies: dict[BookieRef, LacReply] = {}
        self._unanswered: set[BookieRef] = set()

    async def ask(self) -> dict[BookieRef, LacReply]:
        """Asks all of them once, without fencing; returns the replies that came in time.

        Raises MetadataError where they cannot be listed.
        """
        bookies = await self._in_order()
        try:
            async with asyncio.timeout(WITNESSES_SECONDS_MAX):
                await self._ask_all(bookies)
        except TimeoutError:
            self._note_silent(bookies)
        return self._replies

    async def _in_order(self) -> list[BookieRef]:
        """Those that earlier fragments name first, in random order; those that failed lately last."""
        fragments = self._record.fragments
        listed = (await self._cluster.known_bookies.now()).bookies
        bookies = [one.bookie for one in listed if one.bookie not in fragments[-1].ensemble]
        self._cluster.rng.shuffle(bookies)
        named = {bookie for fragment in fragments for bookie in fragment.ensemble}
        avoided = self._cluster.slow_or_failed_lately()
        return sorted(bookies, key=lambda one: (one in avoided, one not in named))

    async def _ask_all(self, bookies: list[BookieRef]) -> None:
        turns = asyncio.Semaphore(WITNESSES_AT_ONCE_MAX)
        async with asyncio.TaskGroup() as asked:

            async def in_turn(bookie: BookieRef) -> None:
                async with turns:
                    asking = asked.create_task(self._ask_one(bookie))
                    await asyncio.wait([asking], timeout=WITNESS_TURN_SECONDS)

            for bookie in bookies:
                asked.create_task(in_turn(bookie))

    async def _ask_one(self, bookie: BookieRef) -> None:
        request = self._requests.lac(bookie)
        self._unanswered.add(bookie)
        try:
            self._replies[bookie] = await self._cluster.bookies.last_add_confirmed(bookie, request)
        except BookieUnavailable as error:
            self._cluster.note_slowness(bookie)
            line = "bookie %s does not say what it knows of ledger %d: %s"
            about = {"ledger": request.ledger_id, "bookie": bookie.bookie_id}
            log.info(line, bookie, request.ledger_id, error, extra=about)
        self._unanswered.remove(bookie)

    def _note_silent(self, bookies: list[BookieRef]) -> None:
        """Later recoveries ask those last that have not answered."""
        for bookie in self._unanswered:
            self._cluster.note_slowness(bookie)
        log.info(
            "of %d bookies that may know more of ledger %d, %d have answered in time",
            len(bookies),
            self._record.ledger_id,
            len(self._replies),
            extra={"ledger": self._record.ledger_id},
        )
