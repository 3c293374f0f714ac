"""The last-add-confirmed of an idle writer is told, and only once."""

from __future__ import annotations

import asyncio

import pytest

from ledgers.shared_timer import SharedTimer
from ledgers.writing.idle_lac import IdleLac

TURNS = 5


class Writer:
    """What an idle-LAC timer knows of its writer."""

    def __init__(self) -> None:
        self.last_add_confirmed = -1
        self.is_idle = True
        self.told: list[int] = []
        self.timer = IdleLac(
            SharedTimer(0.0),
            lambda: self.last_add_confirmed,
            lambda: self.is_idle,
            lambda: self.told.append(self.last_add_confirmed),
        )

    async def confirmed(self, through: int) -> None:
        self.last_add_confirmed = through
        self.timer.confirmed()
        await turns()


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def test_an_idle_writer_tells_each_last_add_confirmed_once() -> None:
    writer = Writer()
    for _ in range(3):
        await writer.confirmed(4)
    assert writer.told == [4]
    await writer.confirmed(5)
    assert writer.told == [4, 5]


async def test_a_bookie_that_joins_an_idle_writer_is_told() -> None:
    writer = Writer()
    await writer.confirmed(4)
    writer.timer.has_joined()
    await turns()
    assert writer.told == [4, 4]


async def test_a_busy_writer_tells_nothing_apart() -> None:
    writer = Writer()
    writer.is_idle = False
    await writer.confirmed(4)
    assert writer.told == []
    writer.is_idle = True
    await writer.confirmed(4)
    assert writer.told == [4]


async def test_a_writer_that_confirms_meanwhile_is_at_work_and_tells_when_it_has_done() -> None:
    writer = Writer()
    for through in range(3):
        writer.last_add_confirmed = through
        writer.timer.confirmed()
        await asyncio.sleep(0)
    assert writer.told == []
    await turns()
    assert writer.told == [2]


@pytest.mark.parametrize("then", ["it is busy", "it has let go"])
async def test_what_has_no_word_to_give_any_more_when_its_time_comes_tells_nothing(then: str) -> None:
    writer = Writer()
    writer.last_add_confirmed = 4
    writer.timer.confirmed()
    if then == "it is busy":
        writer.is_idle = False
    else:
        writer.timer.stop()
    await turns()
    assert writer.told == []
