"""Summarizes the locations of a ledger's bytes as extents (runs of frames). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..wire.messages import HOLDINGS_MAX, Holding
from .frame_locations import FrameLocation

FRAMES_LOOKED_AT_MAX = 32 * 1024
"""Maximum frames examined per call; a ledger of tiny frames takes several calls."""


class Overhead(NamedTuple):
    """A record's bytes besides payload: for the frame, and for each entry."""

    frame_bytes: int
    entry_bytes: int

    def payload_of(self, place: FrameLocation) -> int:
        return max(0, place.size - self.frame_bytes - place.entries * self.entry_bytes)


def runs_of(
    places: Iterable[FrameLocation], first_entry: int, last_entry: int, step_bytes: int, overhead: Overhead
) -> tuple[tuple[Holding, ...], int]:
    """Returns the extents of the frames that begin in the range, in order, and the entry through which they are
    complete."""
    runs: list[Holding] = []
    low, high, entries, size = -1, -1, 0, 0
    looked_at, begun = 0, first_entry - 1
    for place in places:
        if place.first_entry < first_entry:
            continue  # in the previous call's answer
        payload = overhead.payload_of(place)
        # An extent ends before it would be too large: a large frame after many small ones gets its own. It ends
        # between two entries, so that no other extent begins there.
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
