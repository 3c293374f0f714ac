"""Ledgers of older programs have no identity and stay usable."""

from __future__ import annotations

import pytest

from ledgers.aio import LedgerClient
from ledgers.writing import creation
from tests.support.in_process import InProcessCluster, payloads


@pytest.fixture
def without_identities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers are made as an older program makes them."""
    monkeypatch.setattr(creation, "IDENTITY_BYTES", 0)


@pytest.mark.usefixtures("without_identities")
async def test_a_ledger_without_an_identity_is_written_recovered_and_read(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    writer = await client.create_ledger()
    assert writer.record.identity == b""
    await writer.append(b"a")
    for name in ("b1", "b2", "b3"):
        await cluster.stop(name)
        await cluster.start(name)
    async with LedgerClient(cluster.uri) as other:
        assert await payloads(await other.open_ledger(writer.ledger_id)) == [b"a"]
