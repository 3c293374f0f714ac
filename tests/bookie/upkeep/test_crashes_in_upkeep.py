"""A bookie that collects, compacts and crashes, at any operation of its disk, keeps all that it acknowledged."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bookie.errors import BookieError
from bookie.storage.bookie import Bookie
from bookie.upkeep.collecting.compactor import Compactor, state_record
from bookie.wire.messages import Status
from metadata.rate_limit import RateLimit
from tests.bookie.bookies import append, bookie_on, entries, open_bookie, read, read_request
from tests.bookie.entries import frame_of
from tests.bookie.logs import use_small_sizes
from tests.bookie.simulated_disk import SimulatedDisk
from tests.support.aio import run

OK = Status.OK
LIVES = 5
LEDGERS = 6
STEPS_PER_LIFE = 16
INDEX_LOST = 0.25
"""A share of the lives after which nothing but the log is left."""


class Past:
    """What was acknowledged, and what was told to be forgotten, over all lives."""

    def __init__(self) -> None:
        self.entries: dict[int, set[int]] = {}
        self.fenced: set[int] = set()
        self.in_limbo: set[int] = set()
        self.perhaps_in_limbo: set[int] = set()
        self.next_ledger = LEDGERS
        self.ledgers = list(range(LEDGERS))

    def forget(self, ledger_id: int) -> None:
        """A deleted ledger makes no promises; a new one takes its turn."""
        self.ledgers[self.ledgers.index(ledger_id)] = self.next_ledger
        self.next_ledger += 1
        self.entries.pop(ledger_id, None)
        self.fenced.discard(ledger_id)
        self.in_limbo.discard(ledger_id)


async def _step(bookie: Bookie, random: Random, past: Past) -> None:
    ledger_id = random.choice(past.ledgers)
    match random.randrange(10):
        case 0:
            if (await bookie.fence(ledger_id))[0] is OK:
                past.fenced.add(ledger_id)
        case 1:
            past.forget(ledger_id)
            await bookie.checkpoint()
            await bookie.forget([ledger_id])
        case 2 | 3:
            await Compactor(bookie, RateLimit(1e12)).compact(random.choice([0.0, 0.3, 0.9]))
        case 4:
            state = bookie.states.hold(ledger_id)
            state.limbo = not state.limbo
            past.in_limbo.discard(ledger_id)
            past.perhaps_in_limbo.add(ledger_id)
            await bookie.store([state_record(state)])
            (past.in_limbo.add if state.limbo else past.perhaps_in_limbo.discard)(ledger_id)
        case 5:
            await bookie.checkpoint()
        case _:
            entry_id = random.randrange(20)
            [status] = await append(bookie, frame_of(ledger_id, [entry_id]))
            if status is OK:
                past.entries.setdefault(ledger_id, set()).add(entry_id)
            else:
                assert status is Status.FENCED


async def _life(directory: Path, disk: SimulatedDisk, random: Random, past: Past) -> None:
    """Steps until the power goes."""
    try:
        bookie = await open_bookie(directory, disk)
    except OSError:
        return

    async def steps() -> None:
        for _ in range(STEPS_PER_LIFE):
            await _step(bookie, random, past)

    working = asyncio.ensure_future(steps())
    either: list[asyncio.Future[Any]] = [working, bookie.failed]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    disk.power_off_before(0)
    working.cancel()
    with suppress(asyncio.CancelledError, BookieError, OSError):
        await working
    with suppress(BookieError, OSError):
        await bookie.close()


async def _check(bookie: Bookie, past: Past) -> None:
    for ledger_id, entry_ids in past.entries.items():
        reply = await bookie.read(read_request(ledger_id))
        assert reply.damaged == () or ledger_id in past.perhaps_in_limbo
        bookie.states.hold(ledger_id).limbo = False
        found = await read(bookie, ledger_id)
        assert [one for one in found if one[0] in entry_ids] == entries(ledger_id, sorted(entry_ids))
    for ledger_id in past.fenced:
        assert await append(bookie, frame_of(ledger_id, [99])) == [Status.FENCED]


def lose_index(directory: Path) -> None:
    for file in (directory / "index").iterdir():
        file.unlink()


@pytest.mark.parametrize("seed", range(60))
def test_whatever_was_acknowledged_outlives_crashes_in_any_step_of_upkeep(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2, R1, R6"""
    use_small_sizes(monkeypatch, segment=900, group=420, step=400)

    async def test(directory: Path) -> None:
        random = Random(seed)
        disk, past = SimulatedDisk(random), Past()
        for _ in range(LIVES):
            disk.power_off_before(random.randrange(5, 200))
            await _life(directory, disk, random, past)
            disk.crash()
            if random.random() < INDEX_LOST:
                lose_index(directory)
        async with bookie_on(directory, disk) as bookie:
            for ledger_id in past.in_limbo:
                assert bookie.states.peek(ledger_id).limbo
            await Compactor(bookie, RateLimit(1e12)).compact(0.9)
            await _check(bookie, past)
        lose_index(directory)
        async with bookie_on(directory, disk) as bookie:  # the log alone has everything
            await _check(bookie, past)

    with TemporaryDirectory() as directory:
        run(test(Path(directory)))
