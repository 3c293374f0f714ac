"""A recovery that another client has overtaken adopts the other's end (rule R5), and says where more was confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgers.aio import LedgerClient
from ledgers.cluster import Cluster
from ledgers.recovering import recover
from metadata.records.ledger_record import LedgerState
from metadata.records.ledger_store import LedgerStore
from tests.support.in_process import InProcessCluster, on_bookies


def test_R5_an_end_before_what_is_proven_is_adopted_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(ensemble_size=1)
        for payload in (b"a", b"tells that the first is confirmed"):
            await writer.append(payload)
        await writer.abandon()
        store, check = LedgerStore(cluster.store), recover.check_accepted

        async def overtaken(asking: Cluster, ledger_id: int) -> None:
            """Before the recovery writes its own end."""
            found = await store.read(ledger_id)
            if found is not None and found.record.state is LedgerState.IN_RECOVERY:
                await store.change(found.record.closed(-1, 0), found.version)
            await check(asking, ledger_id)

        monkeypatch.setattr(recover, "check_accepted", overtaken)
        assert (await client.open_ledger(writer.ledger_id)).last_add_confirmed == -1
        (told,) = [one.getMessage() for one in caplog.records if one.name == recover.__name__]
        assert "closed at entry -1 by another client, and bookie b1 proves that entry" in told

    on_bookies(tmp_path, 1, scenario)
