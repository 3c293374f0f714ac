"""Who holds memory and does not move is cut: soon where others wait, late where nobody does."""

from __future__ import annotations

import asyncio

import pytest

from bookie.serving.limits import admission as module
from bookie.serving.limits.admission import StalledPeers
from bookie.serving.limits.shared_quota import Account, Budget
from tests.support.aio import until_true

LOOK_SECONDS = 0.02


class Peer:
    """Holds something; moves `pace` bytes whenever it is looked at, None where it is not its turn."""

    def __init__(self, budget: Budget, name: str, stalled_peers: StalledPeers, pace: int | None) -> None:
        self.pace = pace
        self.why: list[str] = []
        self._moved = 0
        self.account = Account(budget, name, self._look, self._cut, stalled_peers.begin)

    def _look(self) -> int | None:
        if self.pace is None:
            return None
        self._moved += self.pace
        return self._moved

    def _cut(self, why: str) -> None:
        self.why.append(why)
        self.account.close()


STILL_SECONDS_MAX = 0.3


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", LOOK_SECONDS)


async def test_who_stands_still_is_cut_for_one_who_waits_and_the_one_that_moves_is_not() -> None:
    budget = Budget(3, 3)
    stalled_peers = StalledPeers([budget], STILL_SECONDS_MAX)
    still = Peer(budget, "still", stalled_peers, 0)
    moving = Peer(budget, "moving", stalled_peers, 1 << 20)
    ours = Peer(budget, "ours", stalled_peers, None)
    assert all(peer.account.take_now(1) for peer in (still, moving, ours))
    began = asyncio.get_running_loop().time()
    await asyncio.wait_for(budget.take("new", 1), 10)
    assert still.why and not moving.why and not ours.why and stalled_peers.cuts == 1
    assert asyncio.get_running_loop().time() - began < 0.3
    stalled_peers.end()


async def test_where_nobody_waits_it_has_its_time() -> None:
    budget = Budget(3, 3)
    stalled_peers = StalledPeers([budget], STILL_SECONDS_MAX)
    still, trickling = Peer(budget, "a", stalled_peers, 0), Peer(budget, "b", stalled_peers, 1 << 20)
    assert still.account.take_now(1) and trickling.account.take_now(1)
    began = asyncio.get_running_loop().time()

    async def is_cut() -> bool:
        return bool(still.why)

    await until_true(is_cut)
    assert asyncio.get_running_loop().time() - began >= 0.3 - LOOK_SECONDS and not trickling.why
    stalled_peers.end()


async def test_nobody_is_looked_at_where_nobody_holds_anything() -> None:
    budget = Budget(3, 3)
    stalled_peers = StalledPeers([budget], STILL_SECONDS_MAX)
    peer = Peer(budget, "a", stalled_peers, 1 << 20)
    assert peer.account.take_now(1)
    peer.account.change(-1)
    loop = asyncio.get_running_loop()
    before = loop.time()

    async def is_quiet() -> bool:
        return stalled_peers._look is None

    await until_true(is_quiet)
    assert loop.time() - before < 5


def test_after_a_pause_of_our_own_nobody_is_to_blame() -> None:
    account = Account(Budget(1, 1), "a", lambda: 0, lambda _: None, lambda: None)
    account.seen = 0
    module._note_pace(account, 1.0)
    assert account.slow_seconds and account.still_seconds == 1.0
    module._note_pace(account, 0.0)
    assert not account.slow_seconds and account.still_seconds == 0.0


def test_who_moves_a_little_is_slow_where_others_wait_and_never_still() -> None:
    moved = iter(range(0, 1000, 100))
    account = Account(Budget(1, 1), "a", lambda: next(moved), lambda _: None, lambda: None)
    for _ in range(5):
        module._note_pace(account, 30.0)
        assert account.still_seconds == 0.0
    assert account.slow_seconds == 4 * 30.0
