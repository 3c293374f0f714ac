"""Asks bookies outside a ledger's last ensemble whether they prove more of it than a recovery is about to keep.

The metadata may have gone back to an older copy of itself (rule W8), with an ensemble that the writer has left since:
its bookies agree on an end that is too early. Those that took the later entries have the writer's last-add-confirmed,
with its digest. They are asked beside the recovery, and before it closes the ledger.

This is a safety net below the hold (`metadata/backup/hold.py`), not a quorum: a bookie that cannot be reached, or has
not registered again since the store went back, says nothing.
"""

from __future__ import annotations

import asyncio
import logging

from bookie.wire import LacRequest, Status
from bookie.wire.credentials import Purpose
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..cluster import Cluster
from ..errors import LedgerError, LedgerRecoveryFailed
from ..integrity.digest import Digester
from ..integrity.ledger_keys import LedgerKey

log = logging.getLogger(__name__)

WITNESSES_AT_ONCE_MAX = 32
"""Bookies asked at the same time."""

WITNESS_SECONDS_MAX = 1.0
"""From the recovery's start until it goes on without those that have not answered."""

WITNESS_READ_SECONDS_MAX = 2.0
"""For one page of a bookie that holds the ledger; it is not asked again after that."""


class Witnesses:
    """The bookies that are registered, and not in the last ensemble. Asked once, by `ask`."""

    def __init__(self, cluster: Cluster, record: LedgerRecord, digester: Digester, key: LedgerKey) -> None:
        self._cluster = cluster
        self._record = record
        self._digester = digester
        self._key = key
        self._holders: list[BookieRef] = []
        self._proven: dict[BookieRef, int] = {}
        self._done = asyncio.get_running_loop().create_future()

    async def ask(self) -> list[BookieRef]:
        """Asks all of them; returns those that hold the ledger, to be read with fencing.

        Of a ledger without an identity that is none: what they hold may be another ledger of its id. Raises
        MetadataError where they cannot be listed.
        """
        try:
            async with asyncio.timeout(WITNESS_SECONDS_MAX):
                await self._ask_all()
        except TimeoutError:
            log.info(
                "not every bookie has said what it knows of ledger %d",
                self._record.ledger_id,
                extra={"ledger": self._record.ledger_id},
            )
        finally:
            if not self._done.done():
                self._done.set_result(None)
        return self._holders if self._record.identity else []

    async def check(self, last_entry: int) -> None:
        """Waits for the answers. Raises LedgerRecoveryFailed where one proves a later entry to be confirmed."""
        await self._done
        beyond = {bookie: proven for bookie, proven in self._proven.items() if proven > last_entry}
        if beyond:
            bookie, proven = max(beyond.items(), key=lambda one: one[1])
            raise LedgerRecoveryFailed(self._record.ledger_id, self._why_not(bookie, proven, last_entry))

    def _why_not(self, bookie: BookieRef, proven: int, last_entry: int) -> str:
        return (
            f"bookie {bookie} proves that entry {proven} was confirmed, and no bookie that answers has entry "
            f"{last_entry + 1}: the metadata is older than the ledger, and nothing was closed. See `bookledger "
            "metadata check`; bring the bookies back that are away, or newer metadata, or copy what there is: "
            f"`bookledger ledger salvage {self._record.ledger_id}`"
        )

    async def _ask_all(self) -> None:
        ensemble = self._record.fragments[-1].ensemble
        listed = (await self._cluster.known_bookies.now()).bookies
        turns = asyncio.Semaphore(WITNESSES_AT_ONCE_MAX)
        async with asyncio.TaskGroup() as asked:
            for one in listed:
                if one.bookie not in ensemble:
                    asked.create_task(self._ask_one(one.bookie, turns))

    async def _ask_one(self, bookie: BookieRef, turns: asyncio.Semaphore) -> None:
        request = LacRequest(
            bookie.incarnation,
            self._record.ledger_id,
            credential=self._key.credential(Purpose.READ, bookie.incarnation),
            identity=self._record.identity,
        )
        try:
            async with turns:
                reply = await self._cluster.bookies.last_add_confirmed(bookie, request)
        except LedgerError as error:
            about = {"ledger": request.ledger_id, "bookie": bookie.bookie_id}
            line = "bookie %s does not say what it knows of ledger %d: %s"
            log.info(line, bookie, request.ledger_id, error, extra=about)
            return
        if reply.status is not Status.OK:
            return
        self._holders.append(bookie)
        statement = reply.last_add_confirmed
        if statement is not None and self._digester.is_valid_lac(statement):
            self._proven[bookie] = statement.last_entry
