"""A bookie that has lost something of which it does not know what vouches for nothing it may have held (R6)."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from bookie.errors import DataDirectoryError
from bookie.log.format import NO_LEDGER, BookieLogRecord, RecordKind
from bookie.serving import daemon
from bookie.serving.history import directory_generation
from bookie.wire.messages import Status
from metadata.backup import hold
from metadata.memory_store import MemoryStore
from metadata.records import directory_generations
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.bookie.bookies import bookie_on, open_bookie
from tests.bookie.entries import entries_of, frame_of
from tests.bookie.serving.served import Client, acks, plain, served
from tests.bookie.simulated_disk import SimulatedDisk
from tests.support.aio import until_true
from tests.support.faulty_store import FaultyStore
from tests.support.present import there

OK = Status.OK
OPEN, CLOSED, ELSEWHERE = 7, 8, 9


async def give_ledgers(store: MemoryStore, client: Client) -> None:
    """OPEN and CLOSED are placed on this bookie, ELSEWHERE is not."""
    me, ledgers = BookieRef("b1", client.incarnation), LedgerStore(store)
    for ledger_id in (OPEN, CLOSED):
        found = there(await ledgers.read(ledger_id))
        record = LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, (me,)),))
        await ledgers.change(record.closed(4, 100) if ledger_id == CLOSED else record, found.version)


async def write(client: Client) -> None:
    for ledger_id in (OPEN, CLOSED, ELSEWHERE):
        assert plain(await client.append(client.request(1, frame_of(ledger_id, range(3))))) == acks(1, [OK])


async def an_older_copy(directory: Path, store: MemoryStore) -> None:
    """Of the bookie's directory, with entries 0 to 2; 3 and 4 were stored after the copy was made."""
    async with served(directory, store) as client:
        await give_ledgers(store, client)
        await write(client)
    shutil.copytree(directory / "b1", directory / "copy")
    async with served(directory, store) as client:
        for ledger_id in (OPEN, CLOSED):
            assert plain(await client.append(client.request(1, frame_of(ledger_id, [3, 4])))) == acks(1, [OK])
    shutil.rmtree(directory / "b1")
    (directory / "copy").rename(directory / "b1")


async def test_an_older_copy_of_the_directory_refuses_to_start(tmp_path: Path) -> None:
    store = MemoryStore()
    await an_older_copy(tmp_path, store)
    for _ in range(2):
        with pytest.raises(DataDirectoryError, match=r"older copy.*life 1.*life 2.*--accept-loss.*repair b1"):
            async with served(tmp_path, store):
                pass


async def test_an_older_copy_that_is_accepted_is_in_limbo_for_what_it_may_have_held(tmp_path: Path) -> None:
    """What is there is read; what is not is UNKNOWN; nothing new is taken for a ledger that is not closed."""
    store = MemoryStore()
    await an_older_copy(tmp_path, store)
    async with served(tmp_path, store, accept_loss=True) as client:
        for ledger_id in (OPEN, CLOSED):
            reply = await client.read(ledger_id, 0, 9)
            assert reply.status is OK
            assert [entry_id for entry_id, _, _ in entries_of(reply.columns)] == [0, 1, 2]
            assert [(r.first_entry, r.last_entry) for r in reply.damaged] == [(0, 9)]
            assert (await client.last_add_confirmed(ledger_id)).status is Status.UNKNOWN
        assert plain(await client.append(client.request(1, frame_of(OPEN, [5])))) == acks(1, [Status.FENCED])
        assert (await client.read(ELSEWHERE, 0, 9)).damaged == ()


async def test_limbo_outlives_restarts_and_the_loss_of_the_index(tmp_path: Path) -> None:
    store = MemoryStore()
    await an_older_copy(tmp_path, store)
    async with served(tmp_path, store, accept_loss=True):
        pass
    for _ in range(2):
        async with served(tmp_path, store) as client:
            assert (await client.last_add_confirmed(OPEN)).status is Status.UNKNOWN
            assert (await client.last_add_confirmed(ELSEWHERE)).status is OK
        for file in (tmp_path / "b1" / "index").iterdir():
            file.unlink()


async def test_a_start_that_cannot_find_out_what_may_be_lost_does_not_serve_and_the_next_one_asks_again(
    tmp_path: Path,
) -> None:
    store = FaultyStore()
    await an_older_copy(tmp_path, store)
    store.fail(ConnectionError("gone"), calls=["list_page"], keys="ledgers/")
    with pytest.raises(ConnectionError):
        async with served(tmp_path, store, accept_loss=True):
            pass
    store.heal()
    with pytest.raises(DataDirectoryError, match="older copy"):  # until all that may be lost is in limbo
        async with served(tmp_path, store):
            pass
    async with served(tmp_path, store, accept_loss=True):
        pass
    async with served(tmp_path, store) as client:
        assert (await client.last_add_confirmed(OPEN)).status is Status.UNKNOWN


async def test_a_crash_between_the_two_places_of_the_number_is_no_older_copy(tmp_path: Path) -> None:
    store = MemoryStore()
    async with served(tmp_path, store):
        pass
    directory_generation._write(tmp_path / "b1", 2)  # the metadata still says 1
    async with served(tmp_path, store):
        assert directory_generation._read(tmp_path / "b1")[0] == 3
    directory_generation._write(tmp_path / "b1", 5)  # twice in a row
    async with served(tmp_path, store):
        assert await hold.read(store) is None, "nor has the metadata gone back"


async def test_a_copy_made_in_the_same_life_is_noticed_by_how_far_the_log_had_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "renewal_seconds", lambda lease_seconds: lease_seconds / 10_000)
    store = MemoryStore()
    async with served(tmp_path, store) as client:
        await give_ledgers(store, client)
        await write(client)
        shutil.copytree(tmp_path / "b1", tmp_path / "copy")
        assert plain(await client.append(client.request(1, frame_of(OPEN, [3])))) == acks(1, [OK])

        async def is_known() -> bool:
            known = await directory_generations.read(store, "b1", client.incarnation)
            return known.position == client.bookie.bookie.log_position

        await until_true(is_known)
    shutil.rmtree(tmp_path / "b1")
    (tmp_path / "copy").rename(tmp_path / "b1")
    with pytest.raises(DataDirectoryError, match="older copy"):
        async with served(tmp_path, store):
            pass
    async with served(tmp_path, store, accept_loss=True) as client:
        assert (await client.last_add_confirmed(OPEN)).status is Status.UNKNOWN


async def test_a_damaged_number_is_named(tmp_path: Path) -> None:
    store = MemoryStore()
    async with served(tmp_path, store):
        pass
    (tmp_path / "b1" / "life").write_text("x")
    with pytest.raises(DataDirectoryError, match=r"life cannot be read.*the number of times"):
        async with served(tmp_path, store):
            pass


async def test_a_loss_in_the_log_is_remembered_until_every_ledger_it_may_concern_is_in_limbo(
    tmp_path: Path,
) -> None:
    """However often the start is interrupted after its checkpoint has passed the place."""
    disk = SimulatedDisk(Random(1))
    bookie = await open_bookie(tmp_path, disk)
    await bookie.store([BookieLogRecord(RecordKind.LOST, NO_LEDGER, content=bytes(16))])
    disk.power_off_before(0)
    await bookie.close()
    disk.crash()
    for _ in range(3):
        async with bookie_on(tmp_path, disk) as bookie:
            assert bookie.has_lost
    async with bookie_on(tmp_path, disk) as bookie:
        await bookie.leave_loss_behind()
    async with bookie_on(tmp_path, disk) as bookie:
        assert not bookie.has_lost
