"""Many things that wait for the same time have one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledgers.shared_timer import SharedTimer

SECONDS = 0.02


async def test_each_is_called_after_its_time_in_the_order_they_came_in() -> None:
    loop, later = asyncio.get_running_loop(), SharedTimer(SECONDS)
    called: list[tuple[int, float]] = []
    done = asyncio.Event()

    def noting(number: int) -> Callable[[], None]:
        began = loop.time()

        def note() -> None:
            called.append((number, loop.time() - began))
            if number == 3:
                done.set()

        return note

    for number in range(4):
        later.call(noting(number))
        await asyncio.sleep(SECONDS / 4)
    await asyncio.wait_for(done.wait(), 10)
    assert [number for number, _ in called] == [0, 1, 2, 3]
    assert all(after >= SECONDS * 0.99 for _, after in called)


async def test_one_that_fails_keeps_no_other_from_being_called() -> None:
    later, done = SharedTimer(0.0), asyncio.Event()
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fail() -> None:
        raise ArithmeticError

    later.call(fail)
    later.call(done.set)
    await asyncio.wait_for(done.wait(), 10)
    assert [type(error) for error in told] == [ArithmeticError]


async def test_one_may_ask_to_be_called_again_and_one_may_end_it_all() -> None:
    later, done = SharedTimer(0.0), asyncio.Event()
    times: list[int] = []

    def again() -> None:
        times.append(len(times))
        if len(times) < 3:
            later.call(again)
            return
        later.stop()
        done.set()

    later.call(again)
    later.call(lambda: None)
    await asyncio.wait_for(done.wait(), 10)
    later.call(again)
    later.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert times == [0, 1, 2]
