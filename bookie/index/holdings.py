"""Summarizes the locations of a ledger's bytes as extents (runs of frames). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..wire.messages import HOLDINGS_MAX, Holding
from .frame_locations import FrameLocation

FRAMES_LOOKED_AT_MAX = 32 * 1024
"""Maximum number of frames examined per call; a ledger of tiny frames requires several calls."""


class Overhead(NamedTuple):
    """Number of bytes in a record that are not payload: per frame, and per entry."""

    frame_bytes: int
    entry_bytes: int

    def payload_of(self, place: FrameLocation) -> int:
        return max(0, place.size - self.frame_bytes - place.entries * self.entry_bytes)


def runs_of(
    places: Iterable[FrameLocation], first_entry: int, last_entry: int, step_bytes: int, overhead: Overhead
) -> tuple[tuple[Holding, ...], int]:
    """Returns, in order, the extents of the frames that begin in the range, and the last entry up to which these
    extents are complete."""
    runs: list[Holding] = []
    low, high, entries, size = -1, -1, 0, 0
    looked_at, begun = 0, first_entry - 1
    for place in places:
        if place.first_entry < first_entry:
            continue  # already in the previous call's result
        payload = overhead.payload_of(place)
        # An extent ends before it becomes too large, so a large frame after many small ones forms an extent by itself.
        # It never ends between frames with the same first entry, so that no two extents begin at the same entry.
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
