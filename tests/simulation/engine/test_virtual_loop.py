"""The clock jumps; what cannot end is said."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.simulation.engine.loop import Deadlock, Livelock, VirtualLoop, run


def test_a_thousand_seconds_pass_at_once_and_in_order() -> None:
    loop = VirtualLoop()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((name, loop.time()))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 1000.0), sleeper("early", 1.0))

    run(main, loop)
    assert woken == [("early", 1.0), ("late", 1000.0)]


def test_a_time_limit_passes_while_nothing_else_happens() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        async with asyncio.timeout(5.0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run(main, loop)
    assert loop.time() == 5.0


async def _nobody_wakes_me() -> None:
    await asyncio.Event().wait()


async def _busy() -> None:
    while True:  # noqa: ASYNC110 — that is the fault
        await asyncio.sleep(0)


@pytest.mark.parametrize(("main", "error"), [(_nobody_wakes_me, Deadlock), (_busy, Livelock)])
def test_a_run_that_cannot_end_is_an_error(main: Any, error: type[AssertionError]) -> None:
    with pytest.raises(error):
        run(main, VirtualLoop())


def test_what_is_run_in_a_thread_elsewhere_runs_here_at_once() -> None:
    loop = VirtualLoop()

    async def main() -> int:
        return await loop.run_in_executor(None, lambda: 7)

    assert run(main, loop) == 7


def test_sets_of_tasks_are_in_the_order_they_were_made() -> None:
    async def nothing() -> None:
        await asyncio.sleep(1)

    async def main() -> list[str]:
        work: list[Coroutine[Any, Any, None]] = [nothing() for _ in range(30)]
        tasks = [asyncio.create_task(one, name=str(n)) for n, one in enumerate(work)]
        done, _ = await asyncio.wait(tasks)
        return [task.get_name() for task in done]

    assert run(main, VirtualLoop()) == [str(n) for n in range(30)]


def test_an_error_that_nobody_looks_at_is_a_problem() -> None:
    loop = VirtualLoop()

    async def fails() -> None:
        raise ValueError("unseen")

    async def main() -> None:
        task = asyncio.create_task(fails())
        await asyncio.sleep(1)
        del task

    run(main, loop)
    assert len(loop.problems) == 1 and "unseen" in loop.problems[0]
