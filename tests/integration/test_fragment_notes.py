"""Bookies know what they belong to: writers tell them, and they tell whoever asks, alive or from their directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie.offline.notes import notes_in
from bookie.wire.messages import HeldNote
from ledgers import ClientConfig
from ledgers.aio import LedgerClient
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.errors import BookieUnavailable
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import FragmentNote
from tests.support.in_process import QUICK, InProcessCluster, cluster_of
from tests.support.upkeep import ref


async def told_by(cluster: InProcessCluster, name: str) -> list[HeldNote]:
    bookies = ConnectedBookies(cluster.store, ClientConfig())
    try:
        return [one async for one in bookies.notes(ref(cluster, name))]
    finally:
        await bookies.close()


async def record_of(cluster: InProcessCluster, ledger_id: int) -> LedgerRecord:
    found = await LedgerStore(cluster.store).read(ledger_id)
    assert found is not None
    return found.record


def notes(record: LedgerRecord, *fragments: int) -> list[HeldNote]:
    return [
        HeldNote(
            record.ledger_id,
            record.fragments[n].first_entry,
            record.identity,
            fragment_note.encode(FragmentNote.of(record, record.fragments[n])),
        )
        for n in fragments
    ]


async def test_every_bookie_of_a_ledger_is_told_with_the_first_entries(tmp_path: Path) -> None:
    async with (
        cluster_of(tmp_path, 3) as cluster,
        LedgerClient(cluster.uri, config=QUICK) as client,
    ):
        writer = await client.create_ledger(
            ensemble_size=3, write_quorum=2, password=b"secret", custom_metadata={"of": b"ours"}
        )
        await writer.append_batch([b"%d" % n for n in range(3)])
        record = await record_of(cluster, writer.ledger_id)
        assert record.fragments[0].number == 1
        for name in cluster.running:
            assert await told_by(cluster, name) == notes(record, 0)
        await writer.close()


async def test_after_an_ensemble_change_every_bookie_is_told_with_the_next_entries(tmp_path: Path) -> None:
    async with (
        cluster_of(tmp_path, 4) as cluster,
        LedgerClient(cluster.uri, config=QUICK) as client,
    ):
        writer = await client.create_ledger(ensemble_size=3, ack_quorum=2)
        await writer.append(b"one")
        before = await record_of(cluster, writer.ledger_id)
        gone = before.fragments[0].ensemble[2].bookie_id
        await cluster.stop(gone)
        while len((await record_of(cluster, writer.ledger_id)).fragments) < 2:
            await writer.append(b"more")
        await writer.append(b"last")
        record = await record_of(cluster, writer.ledger_id)
        assert [one.number for one in record.fragments] == [1, 2]
        stayed, joined = record.fragments[1].ensemble[0].bookie_id, record.fragments[1].ensemble[2].bookie_id
        assert await told_by(cluster, stayed) == notes(record, 0, 1)
        assert await told_by(cluster, joined) == notes(record, 1)
        assert [*notes_in(tmp_path / gone)] == notes(record, 0)
        await writer.close()


async def test_a_bookie_that_was_formatted_anew_is_not_taken_for_the_one_that_was_asked(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, 1) as cluster:
        bookies = ConnectedBookies(cluster.store, ClientConfig())
        with pytest.raises(BookieUnavailable, match="incarnation"):
            _ = [one async for one in bookies.notes(BookieRef("b1", "another"))]
        await bookies.close()
