"""Real bookies, one of which has a damaged disk: it starts again, and nothing confirmed is lost by that (B2, R6)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bookie.disk.disk import OsDisk
from bookie.index.index import Index
from bookie.log import segment_files
from bookie.log.format import place_of
from bookie.log.record_reader import Found
from bookie.log.segment_walk import walk
from bookledger.cli.processes import BookieProcess, ChildFailed, bookie_processes
from ledgers import ClientConfig, LedgerRecoveryFailed
from ledgers.aio import LedgerClient, WriteHandle
from tests.support import command_line
from tests.support.aio import run
from tests.support.failing_disk import LOG, Call, FailingDisk, compiled
from tests.support.long_runs import first_then_long
from tests.support.writing import payload_of

SIZE = 300
ENTRIES = 60
QUICK = ClientConfig(
    append_seconds_max=2, append_quorum_seconds_max=10, read_seconds_max=2, recovery_tries_max=2
)


@dataclass(frozen=True)
class Written:
    """Two ledgers on three bookies: one closed long ago, and one left open, whose entries two of them have."""

    closed: int
    left_open: int


@dataclass(frozen=True)
class Damage:
    """What happens to a bookie's log. `was_killed`: so that nobody knows what it was; `is_refused`: a start sees it."""

    do: Callable[[Path], tuple[str, int]]
    was_killed: bool = False
    is_refused: bool = True


def records_of(log: Path, segment: int) -> list[Found]:
    """Those that hold entries."""
    walked = walk(OsDisk(log), segment)
    return [one for one in walked if isinstance(one, Found) and len(one.record.columns or ())]


def newest_of(log: Path) -> int:
    return max(n for n in segment_files.numbers(OsDisk(log)) if records_of(log, n))


def flip_in_the_newest(log: Path) -> tuple[str, int]:
    """One bit of a record in the middle of the newest segment; where that is."""
    return flip_one_of(log, records_of(log, newest_of(log)))


def flip_behind_the_checkpoint(log: Path) -> tuple[str, int]:
    """One bit of a record that a start reads, and that later ones vouch for."""
    index = Index(log.parent / "index")
    checkpoint = index.checkpoint_position
    index.close()
    found = [one for one in records_of(log, newest_of(log)) if one.position >= checkpoint]
    assert len(found) > ENTRIES // 4, "the last checkpoint was not the one in the middle"
    return flip_one_of(log, found)


def flip_one_of(log: Path, found: list[Found]) -> tuple[str, int]:
    _, offset = place_of(found[len(found) // 2].position)
    path = log / segment_files.name_of(newest_of(log))
    data = bytearray(path.read_bytes())
    data[offset + 100] ^= 1
    path.write_bytes(data)
    return path.name, offset


def delete_the_first(log: Path) -> tuple[str, int]:
    (log / segment_files.name_of(0)).unlink()
    return segment_files.name_of(0), 0


def delete_the_newest(log: Path) -> tuple[str, int]:
    name = segment_files.name_of(newest_of(log))
    (log / name).unlink()
    return name, 0


def cut_the_newest(log: Path) -> tuple[str, int]:
    """In the middle of a record, well before the checkpoint."""
    newest = newest_of(log)
    found = records_of(log, newest)
    _, offset = place_of(found[len(found) // 4].position)
    path = log / segment_files.name_of(newest)
    with path.open("r+b") as file:
        file.truncate(offset + 100)
    return path.name, offset


DAMAGES = {
    "a record before the checkpoint": Damage(flip_in_the_newest, is_refused=False),
    "a segment that the index needs is gone": Damage(delete_the_first),
    "a record behind the checkpoint": Damage(flip_behind_the_checkpoint, was_killed=True),
    "the newest segment is gone": Damage(delete_the_newest, was_killed=True),
    "the newest segment is cut before the checkpoint": Damage(cut_the_newest, was_killed=True),
}


async def write(client: LedgerClient, uri: str, ensemble: list[BookieProcess]) -> Written:
    """The last bookie of the ensemble is killed before the open ledger gets its entries, and a checkpoint of the first
    one comes in the middle of them."""
    victim, _, absent = ensemble
    closed = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    await append(closed, range(ENTRIES))
    await closed.close()
    await asyncio.to_thread(victim.stop)
    await asyncio.to_thread(victim.start)  # a new life begins a new segment
    left_open = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    await asyncio.to_thread(absent.kill)
    await append(left_open, range(ENTRIES // 2))
    collected = await asyncio.to_thread(
        command_line.bookledger, "bookie", "gc", "run", victim.bookie_id, f"--metadata={uri}"
    )
    assert collected.returncode == 0, collected
    await append(left_open, range(ENTRIES // 2, ENTRIES))
    await left_open.abandon()
    return Written(closed.ledger_id, left_open.ledger_id)


async def append(writer: WriteHandle, entry_ids: Iterable[int]) -> None:
    for entry_id in entry_ids:
        await writer.append(payload_of(entry_id, SIZE))


async def check_every_entry(client: LedgerClient, ledger_id: int) -> None:
    reader = await client.open_ledger(ledger_id)
    read = [entry async for entry in reader.read()]
    assert [entry.entry_id for entry in read] == list(range(ENTRIES)), "a confirmed entry is lost"
    assert all(entry.payload == payload_of(entry.entry_id, SIZE) for entry in read)


def command(name: str, bookie: BookieProcess, code: int) -> str:
    """What `bookledger bookie NAME` prints of a stopped bookie that ends with this code."""
    done = command_line.bookledger("bookie", name, f"--data={bookie.directory}")
    assert done.returncode == code, done
    return done.stdout.decode()


def salvage_and_start(bookie: BookieProcess, damage: Damage) -> None:
    """The way out that a refused start, and the check, point to."""
    name, offset = damage.do(bookie.directory / "log")
    if damage.is_refused:
        with pytest.raises(
            ChildFailed, match=f"{name} is damaged at offset {offset}: .*bookledger bookie salvage"
        ):
            bookie.start()
    assert f"PROBLEM: {name} at offset {offset}: " in command("check", bookie, 1)
    told = command("salvage", bookie, 0).splitlines()
    assert any(line.startswith(f"{name} at offset {offset}: ") for line in told)
    assert told[-2] == "next: start the bookie"
    assert told[-1].endswith(f"bookledger bookie repair {bookie.bookie_id} --metadata URI")
    assert (
        "PROBLEM"
        not in command_line.bookledger("bookie", "check", f"--data={bookie.directory}").stdout.decode()
    )
    bookie.start()


@pytest.mark.parametrize("damage", first_then_long(DAMAGES))
async def test_a_bookie_with_a_salvaged_log_serves_and_no_recovery_loses_a_confirmed_entry(
    tmp_path: Path, damage: Damage
) -> None:
    """The recovery meets the salvaged bookie and one that never had the entries, then the one that has them all."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri, lease_seconds=2) as bookies:
        victim, whole, absent = bookies
        async with LedgerClient(uri, config=QUICK) as client:
            written = await write(client, uri, bookies)
            await asyncio.to_thread(victim.kill if damage.was_killed else victim.stop)
            await asyncio.to_thread(salvage_and_start, victim, damage)
            await asyncio.to_thread(absent.start)
            await check_every_entry(client, written.closed)
            await asyncio.to_thread(whole.kill)
            if damage.was_killed:  # what is not there may have been
                with pytest.raises(LedgerRecoveryFailed):
                    await client.open_ledger(written.left_open)
            await asyncio.to_thread(whole.start)
            await check_every_entry(client, written.left_open)
            await check_every_entry(client, written.closed)


def stopped_bookie(tmp_path: Path) -> BookieProcess:
    """A bookie with one ledger of its own."""
    uri = f"sqlite://{tmp_path}/metadata.db"

    async def store() -> None:
        async with LedgerClient(uri) as client:
            writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
            await append(writer, range(ENTRIES))
            await writer.close()

    with bookie_processes(1, tmp_path, uri) as (bookie,):
        run(store())
    return bookie


def test_a_whole_log_is_left_alone_and_the_command_says_so(tmp_path: Path) -> None:
    bookie = stopped_bookie(tmp_path)
    assert command("salvage", bookie, 0) == "no damage in the log: nothing was changed\n"
    assert not (bookie.directory / "salvaged").exists()


def test_what_a_salvage_did_is_one_json_object(tmp_path: Path) -> None:
    bookie = stopped_bookie(tmp_path)
    name, offset = flip_in_the_newest(bookie.directory / "log")
    done = command_line.bookledger("bookie", "salvage", f"--data={bookie.directory}", "--json")
    said = json.loads(done.stdout)
    (mended,) = said["mended"]
    assert (said["bookie_id"], mended["file"], mended["offset"]) == (bookie.bookie_id, name, offset)
    assert (bookie.directory / "salvaged" / mended["copy"]).exists()
    assert len(said["next"]) == 2


def test_an_index_that_cannot_be_used_is_to_be_made_anew_first(tmp_path: Path) -> None:
    bookie = stopped_bookie(tmp_path)
    flip_in_the_newest(bookie.directory / "log")
    (bookie.directory / "index" / "data.mdb").write_bytes(b"garbage" * 4000)
    told = command("salvage", bookie, 0).splitlines()
    assert told[-3].startswith("next: rebuild the index (")
    assert told[-3].endswith(f"bookledger bookie rebuild-index --data {bookie.directory}")
    assert told[-2] == "then: start the bookie"
    assert "frames" in command("rebuild-index", bookie, 0)


def test_a_disk_that_cannot_be_read_is_to_be_copied_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bookie = stopped_bookie(tmp_path)
    disk = FailingDisk(compiled(tmp_path), tmp_path)
    disk.fail(Call.READ, LOG, good=5, bad=1000)
    for name, value in disk.environment.items():
        monkeypatch.setenv(name, value)
    refusal = command_line.fails_with_one_line("bookie", "salvage", f"--data={bookie.directory}")
    assert "the disk fails" in refusal
    assert "salvage the copy" in refusal
