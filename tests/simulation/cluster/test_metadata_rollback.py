"""The store goes back under living processes: nothing acknowledged is mixed or collected (W8, B3)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import pytest

from bookie.index.ledger_state import LedgerState
from bookie.serving.history.metadata_rollback import RollbackDetector
from bookie.upkeep.collecting.collector import Collector
from tests.simulation.engine.runs import Failed

from .metadata_rollback import RollbackCluster
from .plan import Plan
from .run import play

SEEDS = int(os.environ.get("ROLLBACK_SEEDS", "8"))
SEARCHED_MAX = 40
SHAPE, HOSTS = (3, 3, 2), 4


def run(seed: int) -> str:
    """Which promise it breaks; "" where it breaks none."""
    try:
        play(Plan(seed=seed, shape=SHAPE, hosts=HOSTS), tracing=False, kind=RollbackCluster)
    except Failed as failed:
        return str(failed)
    return ""


def test_W8_nothing_acknowledged_is_mixed_or_collected() -> None:
    assert [(seed, why) for seed in range(SEEDS) if (why := run(seed))] == []


def bookies_know_no_identities(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LedgerState, "is_another", lambda *_: False)
    patch.setattr(LedgerState, "identity_mismatch", lambda *_: "")


def a_collection_goes_by_ids_alone(patch: pytest.MonkeyPatch) -> None:
    compare = Collector._compare

    async def broken(self: Collector, here: Iterable[int]) -> object:
        with patch.context() as alone:
            alone.setattr(self._bookie, "holds_another", lambda _: False)
            return await compare(self, here)

    patch.setattr(Collector, "_compare", broken)


def nobody_looks(patch: pytest.MonkeyPatch) -> None:
    async def blind(_: RollbackDetector) -> bool:
        return False

    patch.setattr(RollbackDetector, "look_once", blind)


@pytest.mark.parametrize(
    ("bug", "promise", "known"),
    [
        (bookies_know_no_identities, "mixed", 2),
        (a_collection_goes_by_ids_alone, "collected", 1),
        (nobody_looks, "noticed", 3),
    ],
)
def test_such_a_bug_is_found_by_the_seed_that_is_known(
    bug: Callable[[pytest.MonkeyPatch], None], promise: str, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the draws have changed it is searched for."""
    bug(monkeypatch)
    assert promise in run(known) or any(promise in run(seed) for seed in range(SEARCHED_MAX))
