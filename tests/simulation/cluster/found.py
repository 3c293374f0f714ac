"""Plans that found a bug in the product, as small as they could be made."""

from __future__ import annotations

from tests.simulation.engine.found import Found

from . import planted_in_clients
from .plan import DisksExchanged, Plan, User

MOVED = Found(
    "a bookie that had moved was not found: another answered at its old address, and clients went on asking that one",
    Plan(
        seed=107,
        shape=(4, 3, 2),
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

FOUND = (MOVED,)
