"""Bookies that meet an older copy of the metadata, younger than a third of a lease, have the cluster hold back (W8)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.serving.lookups.verifiers import Verifiers
from bookie.wire.messages import Frame
from bookledger.errors import LedgerError, LedgerIdReused, MetadataWentBack
from ledgers.aio import LedgerClient, WriteHandle
from metadata.backup import hold
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.notes import fragment_note
from tests.support.in_process import InProcessCluster, on_bookies


async def ledger_on_two(client: LedgerClient) -> WriteHandle:
    return await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)


def copied(cluster: InProcessCluster) -> Callable[[], None]:
    """Makes a copy of the metadata; calling what is returned puts it back, under everybody who is connected."""
    path, copy = cluster.uri.removeprefix("sqlite://"), sqlite3.connect(":memory:")
    with sqlite3.connect(path) as live:
        live.backup(copy)

    def put_back() -> None:
        with sqlite3.connect(path) as live:
            copy.backup(live)

    return put_back


async def noticed(cluster: InProcessCluster) -> str:
    """What the hold says of who noticed what; "" without one."""
    restored = await hold.read(cluster.store)
    return "" if restored is None else str(restored.noticed)


async def test_who_is_given_an_id_twice_is_refused_once_and_then_nothing_is_created(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 2) as (cluster, client):
        put_back = copied(cluster)
        before = await ledger_on_two(client)
        await before.append(b"before")
        put_back()
        after = await ledger_on_two(client)
        assert after.ledger_id == before.ledger_id
        with pytest.raises(LedgerIdReused):
            await after.append(b"after")
        assert "a different ledger" in await noticed(cluster)
        with pytest.raises(MetadataWentBack):
            await ledger_on_two(client)


async def test_a_fence_by_a_record_that_went_back_has_the_cluster_hold_back(tmp_path: Path) -> None:
    """The copy lacks an ensemble change of which bookies have heard."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await ledger_on_two(client)
        await writer.append(b"on the first ensemble")
        put_back = copied(cluster)
        await cluster.stop(writer.record.fragments[0].ensemble[1].bookie_id)
        await writer.append(b"on the second one")
        await writer.append(b"with which the bookie that is in both hears of it")
        put_back()
        async with LedgerClient(cluster.uri) as other:
            with pytest.raises(LedgerError):
                await other.open_ledger(writer.ledger_id)
        assert "earlier state" in await noticed(cluster)


async def test_what_a_client_says_of_a_ledger_has_nobody_hold_back(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        await writer.append(b"its own")
        (running,) = cluster.running.values()
        told: list[str] = []

        async def went_back(why: str) -> None:
            told.append(why)

        lookups = Verifiers(running.bookie, LedgerStore(cluster.store), went_back)
        last = writer.record.fragments[-1]
        later = fragment_note.encode_of(writer.record, replace(last, number=last.number + 9))
        its_own = Frame(writer.ledger_id, identity=writer.record.identity)
        for frame in (its_own, its_own._replace(identity=b"f" * 16), its_own._replace(note=later)):
            for _ in range(2):
                await lookups.refused([frame])
                await lookups.look(writer.ledger_id)
        assert told == []
        await writer.close()


async def test_frames_that_name_another_ledger_have_the_metadata_asked_once(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        await writer.append(b"its own")
        (running,) = cluster.running.values()

        class Counted(LedgerStore):
            reads = 0

            async def read(self, ledger_id: int) -> VersionedRecord | None:
                self.reads += 1
                return await super().read(ledger_id)

        lookups = Verifiers(running.bookie, ledgers := Counted(cluster.store))
        last = writer.record.fragments[-1]
        later = fragment_note.encode_of(writer.record, replace(last, number=last.number + 9))
        await lookups.refused([Frame(writer.ledger_id, identity=writer.record.identity, note=later)])
        assert ledgers.reads == 1
        await lookups.refused([Frame(writer.ledger_id, identity=b"f" * 16)] * 100)
        assert ledgers.reads == 2
        await writer.close()


async def test_of_two_look_ups_at_once_the_earlier_ones_late_answer_has_nobody_hold_back(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        (running,) = cluster.running.values()
        told: list[str] = []

        async def went_back(why: str) -> None:
            told.append(why)

        class Late(LedgerStore):
            """Its first answer is given late."""

            is_due, asked = asyncio.Event(), 0

            async def read(self, ledger_id: int) -> VersionedRecord | None:
                self.asked += 1
                found, is_first = await super().read(ledger_id), self.asked == 1
                if is_first:
                    await self.is_due.wait()
                return found

        lookups = Verifiers(running.bookie, ledgers := Late(cluster.store), went_back)
        early = asyncio.create_task(lookups.refused([Frame(writer.ledger_id)]))
        while not ledgers.asked:  # noqa: ASYNC110 — it begins at once
            await asyncio.sleep(0)
        found = await LedgerStore(cluster.store).read(writer.ledger_id)
        assert found is not None
        last = found.record.fragments[-1]
        await ledgers.change(
            replace(found.record, fragments=(replace(last, number=last.number + 1),)), found.version
        )
        stands = fragment_note.encode_of(found.record, replace(last, number=last.number + 1))
        await lookups.refused([Frame(writer.ledger_id, note=stands)])
        ledgers.is_due.set()
        await early
        assert told == []
        await writer.abandon()


@pytest.mark.parametrize("is_accepted", [False, True])
async def test_once_notes_were_asked_for_nothing_is_remembered_of_the_store_before(
    tmp_path: Path, *, is_accepted: bool
) -> None:
    """What an operator has accepted is not held back again."""
    async with on_bookies(tmp_path, 1) as (cluster, client):
        put_back = copied(cluster)
        before = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        (running,) = cluster.running.values()
        told: list[str] = []

        async def went_back(why: str) -> None:
            told.append(why)

        lookups = Verifiers(running.bookie, LedgerStore(cluster.store), went_back)
        await lookups.refused([Frame(before.ledger_id)])
        put_back()
        after = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        assert after.ledger_id == before.ledger_id
        if is_accepted:
            lookups.look_again()
        for _ in range(2):
            await lookups.refused([Frame(after.ledger_id, identity=after.record.identity)])
        assert told == ([] if is_accepted else [f"a different ledger {after.ledger_id} than before"])
        await before.abandon()
        await after.abandon()
