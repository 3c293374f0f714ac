"""kill -9 while a bookie collects and compacts: nothing of the ledgers that are left is lost, and space comes back."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from bookie.wire.messages import MaintainRequest, MaintenanceAction
from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers.aio import LedgerClient
from ledgers.errors import BookieUnavailable
from metadata.records.ledger_record import BookieRef
from tests.support.aio import run
from tests.support.command_line import succeeds
from tests.support.long_runs import first_then_long
from tests.support.writing import payload_of

ROUNDS = 6
SIZE = 4000
ENTRIES = 400
COLLECT = MaintainRequest(MaintenanceAction.COLLECT)


async def write_two(client: LedgerClient) -> tuple[int, int]:
    """Two ledgers, entry by entry by turns, so that no segment is free when one of them is deleted."""
    writers = [await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1) for _ in range(2)]
    for entry_id in range(ENTRIES):
        for writer in writers:
            await writer.append_async(payload_of(writer.ledger_id * ENTRIES + entry_id, SIZE))
            if entry_id % 10 == 0:
                await writer.flush()
    for writer in writers:
        await writer.close()
    return writers[0].ledger_id, writers[1].ledger_id


async def collect_until_killed(client: LedgerClient, bookie: BookieProcess, rng: random.Random) -> None:
    """One round after the other, and kill -9 in the middle of one."""
    [registered] = await client.list_bookies()

    async def collect() -> None:
        with suppress(BookieUnavailable):
            while (await client.maintain_bookie(registered.bookie, COLLECT, 30)).report:
                pass

    collecting = asyncio.ensure_future(collect())
    await asyncio.sleep(rng.uniform(0, 0.3))  # anywhere in a round
    bookie.kill()
    await collecting


async def everything_is_there(client: LedgerClient, ledger_ids: list[int]) -> None:
    for ledger_id in ledger_ids:
        reader = await client.open_ledger(ledger_id)
        read = [entry.payload async for entry in reader.read()]
        assert read == [payload_of(ledger_id * ENTRIES + n, SIZE) for n in range(ENTRIES)]


async def collect(client: LedgerClient, bookie: BookieRef) -> None:
    for _ in range(2):  # the second one compacts what was the tail of the log
        assert (await client.maintain_bookie(bookie, COLLECT, 30)).report


def log_bytes(bookie: BookieProcess) -> int:
    return sum(segment.stat().st_size for segment in (bookie.directory / "log").iterdir())


@pytest.mark.parametrize("seed", first_then_long(range(2)))
def test_kill_nine_in_any_step_of_upkeep_loses_nothing_and_space_comes_back(
    tmp_path: Path, seed: int
) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    rng, kept = random.Random(seed), list[int]()

    async def one_round(bookie: BookieProcess) -> None:
        async with LedgerClient(uri) as client:
            deleted, left = await write_two(client)
            kept.append(left)
            await client.delete_ledger(deleted)
            await collect_until_killed(client, bookie, rng)

    async def check(bookie: BookieProcess) -> None:
        async with LedgerClient(uri) as client:
            await everything_is_there(client, kept)
            [registered] = await client.list_bookies()
            await collect(client, registered.bookie)
            await everything_is_there(client, kept)

    options = ("--segment-size=1", "--compaction-rate=1000")
    with bookie_processes(1, tmp_path, uri, lease_seconds=1, options=options) as (bookie,):
        for _ in range(ROUNDS):
            run(one_round(bookie))
            bookie.start()
        run(check(bookie), 120)
        assert bookie.stop() == 0
        assert log_bytes(bookie) < 1.5 * len(kept) * ENTRIES * SIZE
    succeeds("bookie", "check", f"--data={bookie.directory}")
