"""W8: ledgers of older programs have no identity and stay usable; older bookies get no ledger that has one."""

from __future__ import annotations

import pytest

from bookie.wire.data import handshake
from ledgers import NotEnoughBookies
from ledgers.aio import LedgerClient
from ledgers.config import ClientConfig
from ledgers.errors import LedgerRecoveryFailed
from ledgers.writing import creation
from tests.support.in_process import InProcessCluster, payloads

IMPATIENT = ClientConfig(append_seconds_max=0.3, append_quorum_seconds_max=0.5, recovery_tries_max=1)


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


async def test_W8_bookies_of_an_older_version_store_nothing_of_a_ledger_with_an_identity(
    cluster: InProcessCluster, client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await client.create_ledger() as whole:
        await whole.append(b"a")
    left = await client.create_ledger()
    await left.append(b"b")
    monkeypatch.setattr(handshake, "VERSION_MAX", 2)
    async with LedgerClient(cluster.uri, config=IMPATIENT) as other:
        writer = await other.create_ledger()
        with pytest.raises(NotEnoughBookies, match="upgrade all bookies before any client"):
            await writer.append(b"lost")
        with pytest.raises(LedgerRecoveryFailed, match="upgrade all bookies before any client"):
            await other.open_ledger(left.ledger_id)
        reader = await other.open_ledger(whole.ledger_id)
        assert await payloads(reader) == [b"a"], "what is closed is only read"
    assert not any(one.bookie.is_fenced(left.ledger_id) for one in cluster.running.values())
