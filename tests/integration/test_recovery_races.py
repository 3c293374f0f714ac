"""Recoverers and others that change one ledger's record all the time: nobody goes on for ever."""

from __future__ import annotations

import pytest

from ledgers import ClientConfig, LedgerRecord, LedgerRecoveryFailed
from ledgers.aio import LedgerClient
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.store import MetadataStore
from metadata.version import Version
from tests.support.in_process import InProcessCluster

FEW_TRIES = ClientConfig(recovery_attempts_max=3)


class Meddled(LedgerStore):
    """Somebody changes the record just before every change, and changes nothing in it."""

    def __init__(self, store: MetadataStore, *, only_closes: bool) -> None:
        super().__init__(store)
        self._only_closes = only_closes
        self.changes = 0

    async def change(
        self, record: LedgerRecord, version: Version, *, unless_held: bool = False
    ) -> VersionedRecord:
        if record.is_closed or not self._only_closes:
            self.changes += 1
            found = await self.read(record.ledger_id)
            assert found is not None
            await super().change(found.record, found.version)
        return await super().change(record, version, unless_held=unless_held)


@pytest.mark.parametrize(
    ("only_closes", "says"),
    [(False, "its writer kept changing its metadata"), (True, "other clients kept changing its metadata")],
)
async def test_a_recovery_that_never_settles_says_so_after_so_many_attempts(
    cluster: InProcessCluster, client: LedgerClient, only_closes: bool, says: str
) -> None:
    writer = await client.create_ledger()
    await writer.append(b"x")
    async with LedgerClient(cluster.uri, config=FEW_TRIES) as recoverer:
        connected = await recoverer._connected()
        meddled = Meddled(cluster.store, only_closes=only_closes)
        connected.ledgers = meddled
        with pytest.raises(LedgerRecoveryFailed, match=says):
            await recoverer.open_ledger(writer.ledger_id)
        assert meddled.changes == FEW_TRIES.recovery_attempts_max
    reader = await client.open_ledger(writer.ledger_id)
    assert reader.last_add_confirmed == 0, "left alone it is recovered at once"
