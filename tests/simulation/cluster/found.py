"""Plans that found a bug in the product, as small as they could be made."""

from __future__ import annotations

from tests.simulation.cores.plans.plan import Figures
from tests.simulation.engine.found import Found

from . import planted_in_clients, planted_in_healing
from .plan import DiskLost, DiskRestored, DisksExchanged, Moved, Plan, Stop, User

MOVED = Found(
    "a bookie that had moved was not found: another answered at its old address, and clients went on asking that one",
    Plan(
        seed=20,
        shape=(4, 3, 3),
        hosts=4,
        pace=0.001,
        cancels=0.05,
        users=(
            User(name="w1", does="writes", at=0.7),
            User(name="f10", does="follows", of="w1"),
        ),
        faults=(DisksExchanged(at=30.0, host="b0", other="b1"),),
    ),
    planted_in_clients.never_looks_up_a_bookie_again,
    "liveness",
)

UNFENCED = Found(
    "limbo ended, and the writer of a closed ledger could go on at a bookie that had forgotten its fence",
    Plan(
        seed=37,
        shape=(3, 3, 2),
        hosts=3,
        overtaken=0.0,
        has_password=True,
        users=(
            User(name="w1", does="writes blocking", at=0.87),
            User(name="r11", does="recovers", of="w1", at=4.56),
        ),
        faults=(
            DiskRestored(at=0.77, host="b2"),
            DiskLost(at=10.0, host="b2", seconds=0.0),
            DiskRestored(at=15.34, host="b2", age=1.0),
        ),
    ),
    planted_in_healing.leaves_closed_ledgers_unfenced,
    "R1",
)

RECOVERED = Found(
    "copies of a ledger were moved while it was being recovered",
    Plan(
        seed=27,
        shape=(2, 2, 1),
        hosts=4,
        figures=Figures(loss=0.05),
        users=(
            User(name="w0", does="writes"),
            User(name="w1", does="writes blocking", at=0.01),
            User(name="r11", does="recovers", of="w1", at=21.26),
            User(name="w2", does="writes blocking", at=10.26),
            User(name="r20", does="recovers", of="w2", at=14.8),
        ),
        faults=(
            Stop(at=24.63, host="b3", seconds=20.0),
            *(Moved(at=at) for at in (25.0, 27.0, 29.8, 32.0, 35.0, 39.0)),
        ),
    ),
    planted_in_healing.moves_what_is_being_recovered,
    "problems",
)

FOUND = (MOVED, UNFENCED, RECOVERED)
