"""Segments come and go during a scrub; one that is missing or not this log's is told (R6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bookie.log import segment_files
from bookie.offline import rebuild
from bookie.upkeep.collecting.compactor import Compactor
from bookie.wire.messages import Status
from metadata.rate_limit import RateLimit
from metadata.records.ledger_store import LedgerStore
from tests.bookie.bookies import append, fenced_read
from tests.bookie.entries import frame_of
from tests.bookie.upkeep.replicas import (
    AT_ONCE,
    DictionaryPeers,
    Mended,
    closed_ledger,
    flip,
    flip_in,
    hold,
    mended,
)

from .scrubs import LAST, WHOLE, dealt_with, filled


class Meanwhile(RateLimit):
    """Lets something happen while a scrub waits for its turn."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE)
        self.happens: Callable[[], Awaitable[object]] | None = None

    async def keep(self, units: float) -> None:
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()


@pytest.mark.parametrize("rotten", [False, True])
async def test_segments_that_are_compacted_during_a_scrub_are_no_damage_whatever_stood_in_them(
    tmp_path: Path, rotten: bool
) -> None:
    pace = Meanwhile()
    async with mended(tmp_path, pace=pace) as world:
        await filled(world, WHOLE, 7, 8)
        there = segment_files.numbers(world.bookie.disk)
        if rotten:
            flip_in(tmp_path / "log", world.places(8)[0])

        async def compacted() -> None:
            async with world.upkeep:
                await world.bookie.forget([8])
                await Compactor(world.bookie, RateLimit(AT_ONCE)).compact(0.9)

        pace.happens = compacted
        assert dealt_with(await world.scrubber.scrub_once()) == {}
        assert len(set(there) - set(segment_files.numbers(world.bookie.disk))) > 2
        assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())


async def test_writing_goes_on_during_a_scrub(tmp_path: Path) -> None:
    pace = Meanwhile()
    async with mended(tmp_path, pace=pace) as world:
        await filled(world, WHOLE, 7)

        async def written() -> None:
            await closed_ledger(world.ledgers, 8, WHOLE, LAST)
            await hold(world.bookie, 8, range(30), range(30, 60))

        pace.happens = written
        assert dealt_with(await world.scrubber.scrub_once()) == {}
        assert await world.read(8, 0, LAST) == (list(range(LAST + 1)), set())


async def test_a_segment_that_is_missing_is_made_up_for(formatted: Path, ledgers: LedgerStore) -> None:
    """R6: its frames are fetched and its states written anew; then the log is whole without it."""
    peers = DictionaryPeers(ledgers, lost={7: {2}})
    async with mended(formatted, ledgers, peers=peers) as world:
        await world.bookie.fence(404)
        await filled(world, WHOLE, 7)
        (formatted / "log" / segment_files.name_of(0)).unlink()
        assert 0 in (await world.read(7, 0, LAST))[1]
        report = await world.scrubber.scrub_once()
        assert (report.damaged, report.states_rewritten, report.ledgers_unrepaired) == (1, 1, 1)
        assert 2 in (await world.read(7, 0, LAST))[1]
        peers.lost.clear()
        report = await world.scrubber.scrub_once()
        assert (report.damaged, report.states_rewritten, report.ledgers_unrepaired) == (1, 0, 0)
        assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())
        assert dealt_with(await world.scrubber.scrub_once()) == {}
    rebuild.rebuild_index(formatted)
    async with mended(formatted, ledgers, peers=peers) as world:
        assert (await fenced_read(world.bookie, 404)).status is Status.NO_SUCH_LEDGER
        assert await append(world.bookie, frame_of(404, [0])) == [Status.FENCED]
        assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())


async def test_a_segment_whose_header_has_rotted_is_told(tmp_path: Path, world: Mended) -> None:
    await filled(world, WHOLE, 7)
    flip(tmp_path / "log", 1, 30, 2)
    report = await world.scrubber.scrub_once()
    assert dealt_with(report) == {"damaged": 1, "segments_damaged": (1,)}
