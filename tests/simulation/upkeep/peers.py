"""The other replicas: they hold every entry, and sometimes cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from bookie.upkeep.repair_client import PeersFailed
from bookie.wire.columnar_entries import Columns
from metadata.records.ledger_record import BookieRef, LedgerRecord
from tests.bookie.entries import columns_of, entry_of

from .ledgers import Ledgers

PAGE_ENTRIES = 3
PAGE_SECONDS = 0.002


class Replicas:
    """Keeps the contract of `bookie.upkeep.repair_client.Peers`. `failures`: how often nobody answers."""

    def __init__(self, ledgers: Ledgers, payload_bytes: int) -> None:
        self._ledgers = ledgers
        self._payload_bytes = payload_bytes
        self.failures = 0

    async def entries(
        self, record: LedgerRecord, first_entry: int, last_entry: int, *, without: BookieRef
    ) -> AsyncGenerator[Columns, None]:
        assert record.last_entry is not None
        assert 0 <= first_entry <= last_entry <= record.last_entry
        for start in range(first_entry, last_entry + 1, PAGE_ENTRIES):
            await asyncio.sleep(PAGE_SECONDS)
            self._may_fail(record.ledger_id, start)
            ids = range(start, min(start + PAGE_ENTRIES, last_entry + 1))
            yield columns_of([entry_of(record.ledger_id, n, self._payload_bytes) for n in ids])

    async def recover(self, ledger_id: int) -> LedgerRecord | None:
        await asyncio.sleep(PAGE_SECONDS)
        self._may_fail(ledger_id, None)
        ledger = self._ledgers.of(ledger_id)
        if ledger.is_deleted or not ledger.is_listed:
            return None
        if ledger.record.verifier and not ledger.record.is_closed:
            raise PeersFailed(ledger_id, f"ledger {ledger_id} has a password", "have its owner close it")
        self._ledgers.put(ledger, self._ledgers.closed(ledger))
        return ledger.record

    async def why_unreachable(self, bookie: BookieRef) -> str:
        raise AssertionError("the auditor is not simulated here")

    async def close(self) -> None:
        """Nothing to end."""

    def _may_fail(self, ledger_id: int, entry_id: int | None) -> None:
        if self.failures:
            self.failures -= 1
            raise PeersFailed(ledger_id, "nobody answers", "try again", entry_id=entry_id)
