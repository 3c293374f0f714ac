"""The clock of a writer that waits: it runs out, and it blames nobody for time in which the process stood still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ledgers.tasks import STOPPED_SECONDS
from ledgers.writing.progress_timeout import ProgressClock
from tests.support.aio import until_true

LIMIT = 0.3


class LeapingLoop(asyncio.SelectorEventLoop):
    """Its clock may leap, as it does for a process that was stopped."""

    leapt = 0.0

    def time(self) -> float:
        return super().time() + self.leapt


def on_leaping_loop(scenario: Callable[[LeapingLoop], Coroutine[Any, Any, None]]) -> None:
    loop = LeapingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario(loop))


def test_it_runs_out_when_nothing_progresses() -> None:
    async def scenario(loop: LeapingLoop) -> None:
        overdue: list[float] = []
        clock = ProgressClock(LIMIT, lambda: True, lambda: overdue.append(loop.time()))
        began = loop.time()
        clock.progressed()
        clock.start()
        await until_true(lambda: bool(overdue))
        assert overdue[0] - began >= LIMIT

    on_leaping_loop(scenario)


def test_time_in_which_the_process_stood_still_does_not_count() -> None:
    async def scenario(loop: LeapingLoop) -> None:
        overdue: list[float] = []
        clock = ProgressClock(LIMIT, lambda: True, lambda: overdue.append(loop.time()))
        clock.progressed()
        clock.start()
        loop.leapt = LIMIT + 2 * STOPPED_SECONDS
        woken = loop.time()
        await asyncio.sleep(0)
        assert not overdue
        await until_true(lambda: bool(overdue))
        assert overdue[0] - woken >= LIMIT, "the whole time is given anew"

    on_leaping_loop(scenario)


def test_it_stops_when_nothing_waits() -> None:
    async def scenario(loop: LeapingLoop) -> None:
        waits, overdue = [True], list[float]()
        clock = ProgressClock(LIMIT, lambda: waits[0], lambda: overdue.append(loop.time()))
        clock.progressed()
        clock.start()
        waits[0] = False
        await asyncio.sleep(2 * LIMIT)
        assert not overdue

    on_leaping_loop(scenario)
