"""Looking up who may write to ledgers that a bookie has not seen yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bookie.serving.lookups import verifiers
from bookie.serving.lookups.verifiers import LOOKUPS_AT_ONCE_MAX, Verifiers
from bookie.wire.messages import Status
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.store import MetadataStore
from tests.support.in_process import on_bookies


class CountedLedgers(LedgerStore):
    """Counts how many look-ups are under way together."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self.under_way = self.most = self.asked = 0

    async def read(self, ledger_id: int) -> VersionedRecord | None:
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            return await super().read(ledger_id)
        finally:
            self.under_way -= 1


async def test_many_new_ledgers_are_looked_up_together_so_many_at_a_time_and_each_has_its_own_answer(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1, password=b"secret")
        (running,) = cluster.running.values()
        ledgers = CountedLedgers(cluster.store)
        asked = [writer.ledger_id, *range(5000, 5000 + 3 * LOOKUPS_AT_ONCE_MAX)]
        refused = await Verifiers(running.bookie, ledgers).refused(asked)
        assert set(refused) == set(asked[1:])
        assert {status for status, _ in refused.values()} == {Status.UNAUTHORIZED}
        assert running.bookie.verifier_of(writer.ledger_id) is not None
        assert ledgers.most == verifiers.LOOKUPS_AT_ONCE_MAX
        assert ledgers.asked == len(asked)
        await writer.abandon()
