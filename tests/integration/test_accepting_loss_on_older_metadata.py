"""R7 and W8 together: what an operator gives up where the ledger's record is older than the ledger."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from bookie.index.local_ledger_state import Fence
from bookie.index.notes_table import NotesTable
from bookie.upkeep.inventory.metadata_reconciliation import Compared, bring_up
from ledgers import ClientConfig, LedgerClosed, LedgerError, LedgerFenced, LedgerRecoveryFailed
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.bookies.connected_bookies import ConnectedBookies
from metadata.backup import hold
from metadata.records.cluster import list_bookies
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from tests.support.aio import until_true
from tests.support.in_process import InProcessCluster, on_bookies

BOOKIES = 6


@dataclass
class Rewound:
    """Entry 0 is at the `named` bookies, 1 at `early` and `named`, 2 at `early` and `middle`, 3 at `middle` and `late`,
    4 at `late`. The record knows of entry 0 alone, and that `late` hold more; `early` and `middle` are stopped."""

    writer: WriteHandle
    named: list[str]
    early: str
    middle: str
    late: list[str]


async def rewound(cluster: InProcessCluster, client: LedgerClient) -> Rewound:
    writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
    await writer.append(b"0")
    older = writer.record
    ensemble = list(map(str, older.fragments[0].ensemble))
    chosen: list[str] = []
    stopped = list(ensemble)
    for n in range(1, 5):
        await cluster.stop(stopped[n - 1])
        assert await writer.append(b"%d" % n) == n
        (new,) = {str(one) for one in writer.record.fragments[-1].ensemble} - {*ensemble, *chosen}
        chosen.append(new)
        stopped.append(new)
    for name in ensemble:
        await cluster.start(name)
    for name in chosen[2:]:  # the idle writer tells it
        await until_true(partial(_knows, cluster, writer.ledger_id, name, 4))
    store = LedgerStore(cluster.store)
    found = await store.read(writer.ledger_id)
    assert found is not None
    await store.change(replace(found.record, fragments=older.fragments), found.version)
    for name in chosen[2:]:
        await reports(cluster, writer.ledger_id, name)
    return Rewound(writer, ensemble, chosen[0], chosen[1], chosen[2:])


async def reports(cluster: InProcessCluster, ledger_id: int, name: str) -> None:
    """The bookie compares what it holds with the older metadata."""
    store = LedgerStore(cluster.store)
    found = await store.read(ledger_id)
    assert found is not None
    bookie = BookieRef(name, cluster.running[name].bookie.incarnation)
    await store.change(found.record.found_at(bookie), found.version)


async def brings_up(cluster: InProcessCluster) -> None:
    """An operator has the record made again from what living bookies have noted, and accepts that."""
    assert await made_again(cluster) == 1
    assert await hold.accept(cluster.store)


async def made_again(cluster: InProcessCluster) -> int:
    """How many records are, where all who live were asked for their notes: they remember no older metadata then."""
    bookies = ConnectedBookies(cluster.store, ClientConfig())
    try:
        notes = {one.bookie: bookies.notes(one.bookie) for one in await list_bookies(cluster.store)}
        return await bring_up(cluster.store, notes, Compared())
    finally:
        await bookies.close()


async def _knows(cluster: InProcessCluster, ledger_id: int, name: str, entry: int) -> bool:
    told = cluster.running[name].bookie.states.peek(ledger_id).last_add_confirmed
    return told is not None and told.last_entry >= entry


async def _opens(client: LedgerClient, ledger_id: int) -> bool:
    """Once bookies have renewed their leases since the older metadata was noticed."""
    with suppress(LedgerRecoveryFailed):
        await client.open_ledger(ledger_id)
        return True
    return False


async def is_fenced(writer: WriteHandle) -> None:
    with pytest.raises(LedgerError) as ended:
        await writer.append(b"late")
    assert isinstance(ended.value, LedgerFenced | LedgerClosed)


async def test_nothing_is_given_up_before_the_record_is_brought_up_to_what_a_bookie_has_noted(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, BOOKIES) as (cluster, client):
        was = await rewound(cluster, client)
        ledger_id = was.writer.ledger_id
        with pytest.raises(LedgerRecoveryFailed, match=r"\(b\d, b\d\).* metadata check --accept"):
            await client.open_ledger(ledger_id)
        assessment = await client.assess_loss(ledger_id)
        assert sorted(map(str, (await client.describe_ledger(ledger_id)).also_at)) == sorted(was.late)
        with pytest.raises(LedgerRecoveryFailed, match=r"a later state of the ledger .* metadata check"):
            await client.accept_loss(assessment)
        await brings_up(cluster)
        await cluster.start(was.middle)
        await until_true(partial(_opens, client, ledger_id))
        reader = await client.open_ledger(ledger_id)
        assert (reader.last_add_confirmed, reader.record.accepted_loss) == (4, None)
        await is_fenced(was.writer)


async def test_where_nothing_is_noted_it_is_told_who_has_more_and_they_refuse_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a ledger whose notes are lost."""
    monkeypatch.setattr(NotesTable, "add", lambda *_: None)
    async with on_bookies(tmp_path, BOOKIES) as (cluster, client):
        was = await rewound(cluster, client)
        ledger_id = was.writer.ledger_id
        assert await made_again(cluster) == 0
        assessment = await client.assess_loss(ledger_id)
        assert sorted(map(str, (await client.describe_ledger(ledger_id)).also_at)) == sorted(was.late)
        assert (assessment.last_entry, assessment.missing) == (1, ())
        assert assessment.proven_through == 4, "the last ones prove it"
        closed = await client.accept_loss(assessment)
        assert closed.accepted_loss is not None
        assert (closed.last_entry, closed.accepted_loss.proven_through) == (1, 4)
        for name in was.late:
            assert cluster.running[name].bookie.states.peek(ledger_id).fence is Fence.DURABLE
        await is_fenced(was.writer)
