"""Bugs planted in the client: its connections, and the blocking one with its thread."""

from __future__ import annotations

from typing import Any

import pytest

from ledgers.blocking.client import WriteHandle
from ledgers.bookies.connected_bookies import ConnectedBookies
from tests.simulation.engine.planted import Real, around, instead_of

Patch = pytest.MonkeyPatch


# --- the client's connections -----------------------------------------------------------------------


@instead_of(ConnectedBookies, "_look_up_again", within=400, known=124)
def never_looks_up_a_bookie_again(self: ConnectedBookies, bookie: Any) -> None:
    """A bookie that has moved, and another that answers at its old address: it counts as gone for ever."""


# --- the blocking client ----------------------------------------------------------------------------


@around(WriteHandle, "_take_handed", within=400, known=7)
def hands_over_only_once(take: Real, self: WriteHandle) -> None:
    """What is appended while the loop takes what was handed to it waits for ever."""
    take(self)
    self._is_taking_due = True


@around(WriteHandle, "_take_handed", within=400, known=7)
def hands_over_in_any_order(take: Real, self: WriteHandle) -> None:
    run = self._handed._run
    run.payloads.reverse()
    run.futures.reverse()
    take(self)
