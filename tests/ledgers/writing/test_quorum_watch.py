"""A writer without a quorum of live bookies is given its time once, and anew only after it has had one again."""

from __future__ import annotations

import asyncio

import pytest

from ledgers.writing import quorum_watch
from ledgers.writing.quorum_watch import QuorumWatch
from tests.ledgers.writing.test_progress_timeout import LIMIT, LeapingLoop, on_leaping_loop


class Watched:
    """A writer whose bookies come and go; its clock is set forward."""

    def __init__(self, loop: LeapingLoop) -> None:
        self._loop = loop
        self.is_without = False
        self._given_up = False
        self._watch = QuorumWatch(LIMIT, lambda: self.is_without, self._give_up, lambda: "b1 is away")

    def _give_up(self) -> None:
        self._given_up = True
        self.is_without = False

    async def ends_after(self, seconds: float, *, is_without: bool) -> bool:
        """So much later, bookies were lost or found: whether the writer has given up then."""
        self._loop.leapt += seconds
        self.is_without = is_without and not self._given_up
        self._watch.look()
        for _ in range(3):
            await asyncio.sleep(0)
        return self._given_up


def test_a_lost_quorum_is_told_at_once_and_not_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(loop: LeapingLoop) -> None:
        watched = Watched(loop)
        await watched.ends_after(0, is_without=True)
        assert caplog.messages == ["b1 is away"]
        await watched.ends_after(0.1 * LIMIT, is_without=False)
        await watched.ends_after(0.1 * LIMIT, is_without=True)
        assert caplog.messages == ["b1 is away"]
        await watched.ends_after(0, is_without=False)
        await watched.ends_after(quorum_watch.WARN_AGAIN_SECONDS, is_without=True)
        assert caplog.messages == ["b1 is away"] * 2

    on_leaping_loop(scenario)


def test_bookies_that_are_looked_for_in_vain_again_and_again_do_not_put_off_the_end() -> None:
    async def scenario(loop: LeapingLoop) -> None:
        watched = Watched(loop)
        assert not await watched.ends_after(0, is_without=True)
        assert not await watched.ends_after(0.6 * LIMIT, is_without=True)
        assert await watched.ends_after(0.6 * LIMIT, is_without=True)

    on_leaping_loop(scenario)


def test_a_quorum_that_is_found_and_lost_again_is_given_the_whole_time_anew() -> None:
    async def scenario(loop: LeapingLoop) -> None:
        watched = Watched(loop)
        assert not await watched.ends_after(0, is_without=True)
        assert not await watched.ends_after(0.4 * LIMIT, is_without=False)
        assert not await watched.ends_after(0.2 * LIMIT, is_without=True)
        assert not await watched.ends_after(0.6 * LIMIT, is_without=True)
        assert await watched.ends_after(0.6 * LIMIT, is_without=True)

    on_leaping_loop(scenario)
