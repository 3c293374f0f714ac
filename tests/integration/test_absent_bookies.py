"""New ledgers while a bookie of three is killed, hung or full, and right after an outage (rule W9): real processes."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess
from ledgers.aio import LedgerClient
from ledgers.bookies import ensembles
from metadata.errors import NoSuchKey, VersionConflict
from metadata.healing.marks import Mark, Marks
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.store import MetadataStore
from tests.support.aio import until_true
from tests.support.command_line import bookledger, fails_with_one_line, succeeds, told
from tests.support.failing_disk import LOG, Call, FailingDisk, compiled
from tests.support.writing import payload_of

from .test_healing import ENTRIES, SIZE, filled, healed, is_whole, new_ledger, on_healing_bookies, unmarked

BK2 = "bookie-2"


def absent_in(record: LedgerRecord) -> list[str]:
    return [record.fragments[0].ensemble[n].bookie_id for n in sorted(record.absent_positions)]


async def victim(client: LedgerClient) -> BookieRef:
    return next(one.bookie for one in await client.list_bookies() if one.bookie.bookie_id == BK2)


async def read_back(client: LedgerClient, ledger_id: int, *, recovery: bool) -> list[bytes]:
    reader = await client.open_ledger(ledger_id, recovery=recovery)
    return [entry.payload async for entry in reader.read(0, reader.last_add_confirmed)]


async def test_a_ledger_begun_while_a_bookie_is_dead_is_written_read_and_made_whole(
    tmp_path: Path,
) -> None:
    expected = [payload_of(n, SIZE) for n in range(ENTRIES)]
    async with on_healing_bookies(tmp_path, 3, lost_after=600) as (cluster, client, store):
        cluster.kill(await victim(client))
        closed, crashed = await new_ledger(client), await new_ledger(client)
        assert absent_in(await client.describe_ledger(crashed.ledger_id)) == [BK2]
        await closed.close()
        assert await read_back(client, closed.ledger_id, recovery=False) == expected
        await crashed.abandon()
        assert await read_back(client, crashed.ledger_id, recovery=True) == expected
        deleted = await new_ledger(client)
        await client.delete_ledger(deleted.ledger_id)
        for ledger in (closed, crashed):
            assert isinstance(await Marks(store).read(ledger.ledger_id), Mark)
        await cluster.restart(BookieRef(BK2, ""))
        for ledger in (closed, crashed):
            record = await healed(client, ledger.ledger_id, lambda record: not record.fragments[0].lacking)
            await is_whole(client, record, ENTRIES - 1)
            await unmarked(store, ledger.ledger_id)


async def test_a_ledger_begun_while_a_bookie_hangs_within_its_lease_takes_it_back_when_it_goes_on(
    tmp_path: Path,
) -> None:
    async with on_healing_bookies(tmp_path, 3, lost_after=600) as (cluster, client, _):
        hung = await victim(client)
        cluster.pause(hung)
        writer = await new_ledger(client)
        assert absent_in(await client.describe_ledger(writer.ledger_id)) == [BK2]
        cluster.resume_all()
        async with asyncio.timeout(30):
            while writer._machine.failures:
                await asyncio.sleep(0.1)
                await filled(writer)
        await writer.close()
        await healed(client, writer.ledger_id, lambda record: not record.fragments[0].lacking)
        await is_whole(client, writer.record, writer.last_add_confirmed)


async def lose_registration(store: MetadataStore, key: str) -> None:
    """Whatever its bookie publishes meanwhile."""
    while (found := await store.get(key)) is not None:
        try:
            return await store.delete(key, found.version)
        except (VersionConflict, NoSuchKey):
            continue


async def test_right_after_all_registrations_ran_out_a_creation_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an outage of the metadata: their keys are gone, and living bookies register at their next renewal."""
    monkeypatch.setattr(ensembles, "REGISTRATION_SECONDS_MAX", 60.0)  # a busy machine renews late
    async with on_healing_bookies(tmp_path, 3, lost_after=600) as (_, client, store):
        for one in await client.list_bookies():
            await lose_registration(store, one.key)
        await (await new_ledger(client)).close()


async def test_a_creation_waits_for_three_bookies_that_all_still_read_their_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a power failure: they are registered, and serve in a moment."""
    monkeypatch.setattr(ensembles, "REGISTRATION_SECONDS_MAX", 60.0)  # a busy machine starts late
    uri, disk = f"sqlite://{tmp_path}/metadata.db", FailingDisk(compiled(tmp_path), tmp_path)
    bookies = [
        BookieProcess(f"bookie-{n}", tmp_path / f"bookie-{n}", uri, environment=disk.environment)
        for n in (1, 2, 3)
    ]
    for bookie in bookies:
        bookie.format()

    async def are_registered(client: LedgerClient) -> bool:
        return len(await client.list_bookies()) == len(bookies)

    async def waits() -> bool:
        return "waiting for bookies" in caplog.text

    disk.fail(Call.HANG, LOG)
    with ExitStack() as stack, caplog.at_level("INFO", ensembles.log.name):
        for bookie in bookies:
            stack.callback(bookie.kill)
            bookie.launch()
        async with LedgerClient(uri) as client:
            await until_true(lambda: are_registered(client))
            creating = asyncio.create_task(client.create_ledger(ensemble_size=3))
            await until_true(waits)
            assert caplog.text.count("it reads its log") == len(bookies) and not creating.done()
            disk.fail(Call.HANG, "nothing")
            writer = await creating
            await writer.append(b"begun by bookies that had just started")
            await writer.close()


async def test_the_commands_say_who_was_absent_and_strict_refuses(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    async with on_healing_bookies(tmp_path, 3, lost_after=600) as (cluster, client, _):
        cluster.pause(await victim(client))

        def commands() -> None:
            where = ("--metadata", uri)
            error = fails_with_one_line("ledger", "create", "--strict", *where)
            assert error.startswith(
                "not enough bookies for a new ledger of ensemble size 3: bookie-1: usable"
            )
            made = bookledger("ledger", "create", *where)
            assert b"begins without bookie bookie-2" in made.stderr
            ledger_id = made.stdout.decode().strip()
            assert (
                b"; bookie-2 may lack everything\n" in bookledger("ledger", "show", ledger_id, *where).stdout
            )
            shown = told("ledger", "show", ledger_id, *where)
            (lacking,) = shown["fragments"][0]["lacking"]
            assert lacking == {"bookie_id": BK2, "first_entry": 0, "last_entry": None}
            succeeds("ledger", "append", "--ledger", ledger_id, *where, stdin=b"one\ntwo\n")
            assert bookledger("ledger", "read", "--raw", ledger_id, *where).stdout == b"onetwo"
            shown_closed = bookledger("ledger", "show", ledger_id, *where).stdout
            assert b"bookie-2 may lack entries 0 to 1" in shown_closed

        await asyncio.to_thread(commands)
