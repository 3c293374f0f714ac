"""A bookie on a disk that fills up: clear errors, nothing confirmed lost.

B4: it is read-only, serves what it has, and is writable again by itself. Fences and recovery writes out of the reserve:
bookie/log/test_log_writer_reserve.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bookie.wire.messages import MaintainRequest, MaintenanceAction
from bookledger.cli.processes import bookie_processes
from ledgers import ClientConfig, NotEnoughBookies
from ledgers.aio import LedgerClient
from tests.support.aio import until_true
from tests.support.long_runs import first_then_long
from tests.support.mounts import small_disk
from tests.support.writing import payload_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")

QUICK = ClientConfig(append_seconds_max=2, append_quorum_seconds_max=2)
SIZE = 1000
COLLECT = MaintainRequest(MaintenanceAction.COLLECT)


@pytest.fixture(name="small_disk")
def fixture_small_disk() -> Iterator[Path]:
    with small_disk("40m") as path:
        yield path


def make_room(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)


async def fill(client: LedgerClient) -> tuple[int, int]:
    """Appends until the only bookie takes no more; (ledger, entries confirmed)."""
    writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
    confirmed = 0
    with pytest.raises(NotEnoughBookies, match=r"read-only|nearly full|No space left"):
        while True:
            futures = [await writer.append_async(payload_of(confirmed + n, SIZE)) for n in range(500)]
            for future in futures:
                await future
                confirmed += 1
    return writer.ledger_id, confirmed


async def until_writable(client: LedgerClient, writable: bool) -> None:
    async def holds() -> bool:
        return [bookie.writable for bookie in await client.list_bookies()] == [writable]

    await until_true(holds)


async def check(client: LedgerClient, ledger_id: int, confirmed: int) -> None:
    reader = await client.open_ledger(ledger_id)
    assert reader.last_add_confirmed >= confirmed - 1
    async for entry in reader.read():
        assert entry.payload == payload_of(entry.entry_id, SIZE)


def use_up(disk: Path) -> None:
    """Somebody else takes the rest of the disk, to the last byte."""
    with (
        suppress(OSError),
        (disk / f"somebody elses {len(os.listdir(disk))}").open("wb", buffering=0) as file,
    ):
        while True:
            file.write(bytes(4096))


async def test_B4_a_full_bookie_is_read_only_serves_what_it_has_and_is_writable_again_by_itself_with_space(
    tmp_path: Path, small_disk: Path
) -> None:
    """Reads, fences and recovery writes are still served; nothing confirmed is lost."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, small_disk, uri) as (bookie,):
        async with LedgerClient(uri, config=QUICK) as client:
            ledger_id, confirmed = await fill(client)
            use_up(small_disk)
            await until_writable(client, False)
            with pytest.raises(NotEnoughBookies, match="read-only"):
                await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
            await check(client, ledger_id, confirmed)
            make_room(small_disk)
            await until_writable(client, True)
            async with await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer:
                assert await writer.append(b"room") == 0
            await check(client, ledger_id, confirmed)
            assert bookie.child.is_alive, "a full disk is no reason to die"


@pytest.mark.parametrize("end", first_then_long(["killed", "stopped"]))
async def test_B4_a_bookie_starts_on_a_full_disk_and_serves_what_it_has(
    tmp_path: Path, small_disk: Path, end: str
) -> None:
    """Kill -9, or a stop whose space somebody else takes, on a disk without a byte left, and again."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, small_disk, uri) as (bookie,):
        async with LedgerClient(uri, config=QUICK) as client:
            ledger_id, confirmed = await fill(client)
        use_up(small_disk)
        for _ in range(2):
            bookie.kill() if end == "killed" else bookie.stop()
            use_up(small_disk)
            bookie.start()
        async with LedgerClient(uri, config=QUICK) as client:
            await until_writable(client, False)
            await check(client, ledger_id, confirmed)


async def test_B4_space_is_freed_on_a_disk_that_somebody_else_has_filled(
    tmp_path: Path, small_disk: Path
) -> None:
    """Forgetting ledgers takes a little space first, which comes out of the reserve."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    alone = {"ensemble_size": 1, "write_quorum": 1, "ack_quorum": 1}
    with bookie_processes(1, small_disk, uri, options=["--segment-size=1"]):
        async with LedgerClient(uri, config=QUICK) as client:
            ledger_ids = []
            for _ in range(6):
                async with await client.create_ledger(**alone) as writer:  # type: ignore[arg-type]
                    for n in range(1500):
                        await writer.append_async(payload_of(n, SIZE))
                ledger_ids.append(writer.ledger_id)
            for ledger_id in ledger_ids[:-1]:
                await client.delete_ledger(ledger_id)
            use_up(small_disk)
            [bookie] = await client.list_bookies()
            reply = await client.maintain_bookie(bookie.bookie, COLLECT, 30)
            assert (reply.detail, json.loads(reply.report)["ledgers_forgotten"]) == ("", 5)
            assert json.loads(reply.report)["segments_dropped"] > 3
            await check(client, ledger_ids[-1], 1500)
