"""A recovery acts on no metadata for which no bookie vouches, or that is held back (rule W8)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bookie.wire import LacReply, Status
from ledgers.aio import LedgerClient
from ledgers.cluster import Cluster
from ledgers.errors import LedgerRecoveryFailed
from ledgers.integrity.digest import Crc32cDigester
from ledgers.protocol.fencing import Fencing
from ledgers.recovering import accepted_metadata
from ledgers.recovering.accepted_metadata import until_vouched_for
from ledgers.recovering.recovery_run import RecoveryRun
from metadata import keys
from metadata.backup import hold
from metadata.memory_store import MemoryStore
from metadata.records.cluster import cluster_id
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.sqlite.store import SqliteStore
from metadata.store import Page
from tests.simulation.engine.loop import VirtualLoop
from tests.support.aio import run
from tests.support.in_process import InProcessCluster, on_bookies, payloads
from tests.support.present import there

HELD = "until an operator accepts it"


@contextmanager
def set_back() -> Iterator[None]:
    """The store is at revision 1, for whoever compares."""
    list_page = SqliteStore.list_page

    async def older(self: SqliteStore, prefix: str, **about: Any) -> Page:
        page = await list_page(self, prefix, **about)
        return (
            replace(page, revision=1) if prefix.startswith(keys.LIVES) and about.get("limit") == 1 else page
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteStore, "list_page", older)
        yield


async def abandoned(client: LedgerClient, size: int) -> int:
    writer = await client.create_ledger(ensemble_size=size, write_quorum=size, ack_quorum=1)
    await writer.append(b"a")
    await writer.abandon()
    return writer.ledger_id


async def state_of(cluster: InProcessCluster, ledger_id: int) -> LedgerState:
    return there(await LedgerStore(cluster.store).read(ledger_id)).record.state


async def test_nothing_is_closed_where_a_bookie_that_is_fenced_finds_the_store_set_back(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, client):
        ledger_id = await abandoned(client, 1)
        with set_back(), pytest.raises(LedgerRecoveryFailed, match=HELD):
            await client.open_ledger(ledger_id)
        assert await state_of(cluster, ledger_id) is LedgerState.IN_RECOVERY
        assert await hold.accept(cluster.store)
        await cluster.stop("b1")  # it vouches from its next renewal on: a start is sooner
        await cluster.start("b1")
        assert await payloads(await client.open_ledger(ledger_id)) == [b"a"]


async def test_no_loss_is_accepted_where_a_bookie_that_is_fenced_finds_the_store_set_back(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 2) as (cluster, client):
        ledger_id = await abandoned(client, 2)
        await cluster.stop("b1")
        assessment = await client.assess_loss(ledger_id)
        with set_back(), pytest.raises(LedgerRecoveryFailed, match=HELD):
            await client.accept_loss(assessment)
        assert await hold.accept(cluster.store)
        assert (await client.accept_loss(assessment)).is_closed


async def test_a_close_is_refused_that_meets_a_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody notices between the fences and the close."""
    change = RecoveryRun._change

    async def held(self: RecoveryRun, record: LedgerRecord) -> None:
        await hold.begin(self._cluster.store, backup_ms=0, now_ms=1)
        await change(self, record)

    async with on_bookies(tmp_path, 1) as (cluster, client):
        ledger_id = await abandoned(client, 1)
        with monkeypatch.context() as patch:
            patch.setattr(RecoveryRun, "_change", held)
            with pytest.raises(LedgerRecoveryFailed, match=HELD):
                await client.open_ledger(ledger_id)
        assert await state_of(cluster, ledger_id) is LedgerState.IN_RECOVERY


async def test_a_recovery_asks_no_bookie_that_the_ledger_does_not_name(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 4) as (cluster, client):
        ledger_id = await abandoned(client, 2)
        found = there(await LedgerStore(cluster.store).read(ledger_id))
        named = {one.bookie_id for one in found.record.fragments[0].ensemble}
        with pytest.MonkeyPatch.context() as patch:
            for name, other in cluster.running.items():
                if name not in named:
                    for call in ("read", "last_add_confirmed", "append"):
                        patch.setattr(other.bookie, call, _never)
            assert await payloads(await client.open_ledger(ledger_id)) == [b"a"]


async def _never(*_: object) -> None:
    raise AssertionError("a bookie was asked that the ledger does not name")


# --- asking again ---------------------------------------------------------------------------------

RECORD = LedgerRecord(
    7, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i"),)),), LedgerState.IN_RECOVERY, written_at=50
)


class Asked:
    """A bookie that answers so, one after the other, and the last for ever."""

    def __init__(self, *since: int) -> None:
        self.store = MemoryStore()
        self.fencing = Fencing(RECORD, Crc32cDigester(7))
        self.vouched = asyncio.Event()
        self.times = 0
        self._replies = [LacReply(Status.OK, vouched_since=one) for one in since]

    async def fence(self) -> LacReply:
        self.times += 1
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    async def __call__(self) -> LacReply:
        cluster = cast(Cluster, SimpleNamespace(store=self.store))
        return await until_vouched_for(cluster, self.fencing, self.fence, self.vouched)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_metadata, "ASKED_AGAIN_SECONDS_MIN", 0)


@pytest.mark.usefixtures("quick")
def test_a_bookie_that_came_back_is_asked_until_it_vouches() -> None:
    assert run(Asked(0, 51, 51, 50)()).vouched_since == 50


async def test_nobody_is_asked_again_once_another_vouches() -> None:
    asked = Asked(51)
    asking = asyncio.create_task(asked())
    await asyncio.sleep(0)
    asked.vouched.set()
    assert (await asking).vouched_since == 51 and asked.times == 1


def test_a_bookie_that_cannot_vouch_for_long_is_asked_more_and_more_seldom() -> None:
    loop, asked = VirtualLoop(), Asked(51)
    with closing(loop):
        loop.run_until_complete(asked())
        assert loop.time() == pytest.approx(accepted_metadata.VOUCHED_SECONDS_MAX)
    assert asked.times < 12


@pytest.mark.usefixtures("quick")
async def test_nor_once_somebody_has_noticed() -> None:
    asked = Asked(51)
    await hold.begin(asked.store, backup_ms=0, now_ms=1)
    with pytest.raises(LedgerRecoveryFailed, match="the metadata of the cluster that was here is gone"):
        await asked()
    await cluster_id(asked.store, create=True)
    with pytest.raises(LedgerRecoveryFailed, match=HELD):
        await asked()


@pytest.mark.usefixtures("quick")
def test_nor_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_metadata, "VOUCHED_SECONDS_MAX", 0.01)
    assert run(Asked(51)()).vouched_since == 51
