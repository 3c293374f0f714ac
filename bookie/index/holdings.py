"""Where a ledger's bytes lie, told in runs of frames: pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..wire.messages import HOLDINGS_MAX, Holding
from .places import Place

FRAMES_LOOKED_AT_MAX = 32 * 1024
"""Frames of one look; a ledger of tiny frames is told in several."""


class Overhead(NamedTuple):
    """What a record holds besides payload: bytes a frame, and bytes an entry."""

    frame_bytes: int
    entry_bytes: int

    def payload_of(self, place: Place) -> int:
        return max(0, place.size - self.frame_bytes - place.entries * self.entry_bytes)


def runs_of(
    places: Iterable[Place], first_entry: int, last_entry: int, step_bytes: int, overhead: Overhead
) -> tuple[tuple[Holding, ...], int]:
    """Runs of those frames, in order, that begin in the range; and the entry through which these are all."""
    runs: list[Holding] = []
    low, high, entries, size = -1, -1, 0, 0
    looked_at, begun = 0, first_entry - 1
    for place in places:
        if place.first_entry < first_entry:
            continue  # the look before told of it
        payload = overhead.payload_of(place)
        # A run ends before it would be too large: a large frame behind many small ones is a run by itself. It ends
        # between two entries, so that no other one begins where it does.
        if entries and size + payload > step_bytes and place.first_entry > begun:
            runs.append(Holding(low, high, entries, size))
            entries = size = 0
        if looked_at == FRAMES_LOOKED_AT_MAX or len(runs) == HOLDINGS_MAX:
            last_entry = place.first_entry - 1
            break
        if not entries:
            low = high = place.first_entry
        begun, high = place.first_entry, max(high, place.last_entry)
        entries, size, looked_at = entries + place.entries, size + payload, looked_at + 1
    if entries:
        runs.append(Holding(low, high, entries, size))
    return tuple(runs), last_entry
