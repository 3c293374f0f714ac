"""Background work keeps to its rate, whoever shares it and however much is asked for at once. Time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from metadata.rate_limit import PERIOD_SECONDS, RateLimit
from tests.simulation.engine.loop import VirtualLoop, run

RATE = 1000.0
AT_ONCE = RATE * PERIOD_SECONDS


class Ticking(VirtualLoop):
    """Each turn takes a moment, as it really does: a limiter may wait for less than a float can tell."""

    def select(self, timeout_seconds: float | None) -> list[Any]:
        found = super().select(timeout_seconds)
        self._now += 1e-6
        return found


def seconds_of(scenario: Callable[[], Awaitable[None]]) -> float:
    async def whole() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await scenario()
        return loop.time() - began

    return run(whole, Ticking())


def test_many_small_batches_take_as_long_as_their_bytes_at_the_rate() -> None:
    async def copied() -> None:
        pace = RateLimit(RATE).keep
        for _ in range(1000):
            await pace(10)

    assert 10 - 2 * PERIOD_SECONDS <= seconds_of(copied) <= 10 + PERIOD_SECONDS


def test_a_batch_larger_than_fits_at_once_is_waited_for_in_parts() -> None:
    async def copied() -> None:
        await RateLimit(RATE).keep(int(20 * AT_ONCE))

    assert 5 - 2 * PERIOD_SECONDS <= seconds_of(copied) <= 5 + PERIOD_SECONDS


def test_all_who_share_a_pace_keep_to_it_together() -> None:
    async def copied() -> None:
        pace = RateLimit(RATE).keep

        async def one() -> None:
            for _ in range(50):
                await pace(20)

        await asyncio.gather(*(one() for _ in range(4)))

    assert 4 - 2 * PERIOD_SECONDS <= seconds_of(copied) <= 4 + PERIOD_SECONDS


def test_what_fits_at_once_does_not_wait() -> None:
    async def copied() -> None:
        await RateLimit(RATE).keep(int(AT_ONCE))

    assert seconds_of(copied) < 0.01
