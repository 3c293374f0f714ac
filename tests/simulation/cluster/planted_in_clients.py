"""Bugs planted in the client: its connections, and the blocking one with its thread."""

from __future__ import annotations

import pytest

from ledgers.blocking.write import WriteHandle
from ledgers.bookies.connected_bookies import ConnectedBookies

Patch = pytest.MonkeyPatch


# --- the client's connections -----------------------------------------------------------------------


def never_looks_up_a_bookie_again(patch: Patch) -> None:
    """A bookie that has moved, and another that answers at its old address: it counts as gone for ever."""
    patch.setattr(ConnectedBookies, "_look_up_again", lambda self, bookie: None)


# --- the blocking client ----------------------------------------------------------------------------


def hands_over_only_once(patch: Patch) -> None:
    """What is appended while the loop takes what was handed to it waits for ever."""
    take = WriteHandle._take_handed

    def broken(self: WriteHandle) -> None:
        take(self)
        self._is_taking_due = True

    patch.setattr(WriteHandle, "_take_handed", broken)


def hands_over_in_any_order(patch: Patch) -> None:
    take = WriteHandle._take_handed

    def broken(self: WriteHandle) -> None:
        run = self._handed._run
        run.payloads.reverse()
        run.futures.reverse()
        take(self)

    patch.setattr(WriteHandle, "_take_handed", broken)
