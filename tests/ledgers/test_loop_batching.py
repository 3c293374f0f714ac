"""What a client does at the end of a turn of its loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledgers.loop_batching import LoopBatching


async def test_all_is_taken_in_before_anything_is_sent_and_once() -> None:
    turn, done = LoopBatching(), list[str]()

    def note(what: str) -> Callable[[], None]:
        return lambda: done.append(what)

    turn.send(note("send"))
    turn.take(note("take"))
    turn.take(note("take more"))
    assert done == []
    await asyncio.sleep(0)
    assert done == ["take", "take more", "send"]
    await asyncio.sleep(0)
    assert len(done) == 3


async def test_what_taking_in_gives_to_send_goes_in_the_same_turn() -> None:
    turn, done = LoopBatching(), list[str]()
    turn.take(lambda: turn.send(lambda: done.append("sent")))
    await asyncio.sleep(0)
    assert done == ["sent"]


async def test_what_somebody_does_who_was_woken_goes_in_the_turn_in_which_he_was() -> None:
    turn, sent, turns = LoopBatching(), asyncio.Event(), list[int]()
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def append() -> None:
        await woken
        turn.send(sent.set)

    appending = asyncio.create_task(append())
    await asyncio.sleep(0)
    woken.set_result(None)
    turn.expect()
    while not sent.is_set():
        await asyncio.sleep(0)
        turns.append(len(turns))
    await appending
    assert turns == [0]


async def test_what_threads_hand_over_is_sent_in_the_turn_in_which_the_loop_hears_of_it() -> None:
    turn, done = LoopBatching(), list[str]()

    def hand_over(name: str) -> Callable[[], None]:
        def take() -> None:
            done.append(f"take {name}")
            turn.send(lambda: done.append(f"send {name}"))

        return turn.of_thread(take)

    loop = asyncio.get_running_loop()
    for work in [hand_over("one"), hand_over("two")]:
        loop.call_soon(work)
    await asyncio.sleep(0)
    assert done == ["take one", "take two", "send one", "send two"]
    await asyncio.sleep(0)
    assert len(done) == 4


async def test_what_fails_keeps_no_other_from_its_turn() -> None:
    turn, done, told = LoopBatching(), list[str](), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fail() -> None:
        raise OSError("no")

    turn.take(fail)
    turn.take(lambda: done.append("taken"))
    turn.send(lambda: done.append("sent"))
    for _ in range(2):
        await asyncio.sleep(0)
    assert done == ["taken", "sent"]
    assert [str(error) for error in told] == ["no"]
    turn.send(lambda: done.append("sent later"))
    await asyncio.sleep(0)
    assert done[-1] == "sent later"
