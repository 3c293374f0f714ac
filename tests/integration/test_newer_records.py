"""A cluster whose metadata holds records of a newer program, as it does in the middle of a rolling upgrade."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from bookie.wire.messages import MaintainRequest, MaintenanceAction, Status
from bookledger.cli.processes import bookie_processes
from ledgers import Fragment, LedgerError, Registration
from ledgers.aio import LedgerClient
from metadata import keys, open_store
from metadata.records import record_decoding
from metadata.records import records_pb2 as pb
from metadata.store import MetadataStore
from qjm_compat.aio import DEFAULT_ACCEPTOR
from tests.support.command_line import bookledger, succeeds
from tests.support.in_process import on_bookies, payloads

NEWER = 9
"""The format version of a program that is not written yet."""


@pytest.fixture(autouse=True)
def nothing_named_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_decoding, "_named", set())


async def upgrade(store: MetadataStore, key: str) -> bytes:
    """Puts a newer program's record in place of ours, which is returned."""
    found = await store.get(key)
    assert found is not None
    await store.replace(
        key, pb.Ledger(format_version=NEWER, nonce=b"newer").SerializeToString(), found.version
    )
    return found.value


async def newer_bookie(store: MetadataStore, name: str) -> None:
    registration = pb.Registration(
        format_version=NEWER, bookie_id=name, incarnation="i", address="127.0.0.1:1"
    )
    await store.create(keys.bookie(name), registration.SerializeToString())


async def stray_keys(store: MetadataStore) -> None:
    await store.create(f"{keys.LEDGERS}not-an-id", b"")
    await store.create(f"{keys.LEDGERS}{7:015x}", b"\xff\xff")
    await store.create(f"{keys.BOOKIES}stray", b"\xff\xff")
    for n, (name, incarnation) in enumerate(NOBODIES):
        nobody = pb.Registration(
            format_version=1, bookie_id=name, incarnation=incarnation, address="127.0.0.1:1"
        )
        await store.create(f"{keys.BOOKIES}stray{n}", nobody.SerializeToString())
    found = await store.get(keys.bookie("b1"))
    assert found is not None
    await store.create(f"{keys.BOOKIES}copy", found.value)


NOBODIES = (("", "i"), ("../x/y", "i"), ("\x1b[2J", "i"), ("x" * 300, "i"), ("stray4", ""))
"""Names and incarnations that no bookie can have."""


async def written(client: LedgerClient, payload: bytes) -> int:
    async with await client.create_ledger(ensemble_size=3) as writer:
        await writer.append(payload)
    return writer.ledger_id


async def test_ledgers_are_made_listed_written_and_read_beside_records_of_a_newer_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with on_bookies(tmp_path, 4) as (cluster, client):
        newer = await written(client, b"newer")
        await upgrade(cluster.store, keys.ledger(newer))
        await newer_bookie(cluster.store, "b9")
        await stray_keys(cluster.store)
        mine = [await written(client, b"mine") for _ in range(2)]
        for _ in range(2):
            assert [record.ledger_id async for record in client.list_ledgers()] == mine
            assert [one.bookie.bookie_id for one in await client.list_bookies()] == ["b1", "b2", "b3", "b4"]
        assert await payloads(await client.open_ledger(mine[0])) == [b"mine"]
        with pytest.raises(LedgerError, match="format version 9; this program supports 1"):
            await client.describe_ledger(newer)
        with pytest.raises(LedgerError, match="format version 9"):
            await client.delete_ledger(newer)
        with pytest.raises(LedgerError, match="cannot be used"):
            _ = [record async for record in client.list_ledgers(skip_unreadable=False)]
    named = [r.getMessage() for r in caplog.records if r.name == record_decoding.__name__]
    assert len(named) == 11, "each is named, once"
    assert all("upgrade this program, or remove the key" in line for line in named)


async def test_a_writer_replaces_a_bookie_beside_a_registration_of_a_newer_program(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 4) as (cluster, client):
        await newer_bookie(cluster.store, "b9")
        writer = await client.create_ledger(ensemble_size=3)
        await writer.append(b"one")
        await cluster.stop(writer.record.fragments[0].ensemble[0].bookie_id)
        await writer.append(b"two")
        await writer.close()
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"one", b"two"]


async def test_upkeep_goes_on_and_keeps_every_entry_of_a_ledger_whose_record_it_cannot_read(
    tmp_path: Path,
) -> None:
    """Deleted, and put to rights: what is deleted goes, what cannot be read stays."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        newer, deleted, mine = [await written(client, n) for n in (b"newer", b"deleted", b"mine")]
        before = await upgrade(cluster.store, keys.ledger(newer))
        await client.delete_ledger(deleted)
        await stray_keys(cluster.store)
        for bookie in await client.list_bookies():
            collected = await maintain(client, bookie, MaintainRequest(MaintenanceAction.COLLECT))
            assert '"ledgers_forgotten":1' in collected.replace(" ", "")
            repaired = await maintain(client, bookie, MaintainRequest(MaintenanceAction.REPAIR))
            assert '"ledgers_unrepaired":0' in repaired.replace(" ", "")
        found = await cluster.store.get(keys.ledger(newer))
        assert found is not None
        await cluster.store.replace(keys.ledger(newer), before, found.version)
        assert await payloads(await client.open_ledger(newer)) == [b"newer"]
        assert await payloads(await client.open_ledger(mine)) == [b"mine"]


async def maintain(client: LedgerClient, registered: Registration, request: MaintainRequest) -> str:
    reply = await client.maintain_bookie(registered.bookie, request, 20)
    assert reply.status is Status.OK
    return reply.report


async def test_nobody_takes_the_places_of_a_bookie_whose_registration_cannot_be_read(tmp_path: Path) -> None:
    """It may well be alive: a newer program's."""
    async with on_bookies(tmp_path, 4) as (cluster, client):
        before: tuple[Fragment, ...] = ()
        while not any(one.bookie_id == "b1" for fragment in before for one in fragment.ensemble):
            ledger_id = await written(client, b"x")
            before = (await client.describe_ledger(ledger_id)).fragments
        await cluster.stop("b1")
        await newer_bookie(cluster.store, "b1")
        spare = next(one for one in await client.list_bookies() if one.bookie not in before[0].ensemble)
        reply = await client.maintain_bookie(
            spare.bookie, MaintainRequest(MaintenanceAction.REPAIR, "b1"), 20
        )
        assert reply.status is not Status.OK
        assert "registration version 9" in reply.detail
        assert (await client.describe_ledger(ledger_id)).fragments == before


async def test_a_bookie_waits_for_a_registration_of_its_name_that_it_cannot_read(tmp_path: Path) -> None:
    """Its newer build was just stopped; its lease runs out."""
    async with on_bookies(tmp_path, 1) as (cluster, client):
        await cluster.stop("b1")
        lease = await cluster.store.grant_lease(1)
        registration = pb.Registration(format_version=NEWER, bookie_id="b1").SerializeToString()
        await cluster.store.create(keys.bookie("b1"), registration, lease=lease)
        await cluster.start("b1")
        assert "b1" in [one.bookie.bookie_id for one in await client.list_bookies()]


async def test_journals_are_listed_beside_keys_of_nobody_and_one_of_a_newer_program(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    store = await open_store(uri, create=True)
    for key in ("stray", "a/b/c/d", "../x/state", f"newer/{DEFAULT_ACCEPTOR}/state"):
        await store.create(f"{keys.JOURNALS}{key}", b"\xff\xff")
    await store.close()
    with bookie_processes(3, tmp_path, uri):
        for name in ("ns1", "ns2"):
            succeeds("journal", "format", name, "--namespace-id=1", "--cluster-id=C", f"--metadata={uri}")
        listed = bookledger("journal", "list", "--json", f"--metadata={uri}")
        assert listed.returncode == 0, listed.stderr
        assert [json.loads(line)["journal"] for line in listed.stdout.splitlines()] == ["ns1", "ns2"]
        assert b"journals/newer/" in listed.stderr
        succeeds("journal", "show", "ns1", f"--metadata={uri}")
