"""Reads one page of entries: frames at given places in, columns out.

A frame's record is read completely and its checksum verified before any of its entries is served. A record that cannot
be read or verified makes its entry range *damaged*, never absent (rule R6).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ..index.places import FrameLocation
from ..wire.columns import ENTRY_BYTES_MAX, Columns, merge
from ..wire.messages import EntryRange
from .frames import SegmentFiles, UnreadableFrame, read_frame

log = logging.getLogger(__name__)

PAGE_BYTES_MAX = ENTRY_BYTES_MAX
"""Maximum bytes of one page, with all its columns, whatever the request asks for; a larger entry gets its own page. So
a page always fits into a message."""


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries of [first requested, covered_through]; an entry neither in `columns` nor in `damaged` is absent.

    `why_unread`: why the first of `damaged` was not read; "" if it was read and is damaged.
    """

    columns: Columns
    covered_through: int
    damaged: tuple[EntryRange, ...]
    why_unread: str = ""


def read_page(
    files: SegmentFiles,
    places: Sequence[FrameLocation],
    ledger_id: int,
    first_entry: int,
    last_entry: int,
    bytes_max: int,
    *,
    whole_frames: bool = False,
) -> EntryPage:
    """Reads entries of [first_entry, last_entry] from `places`, ordered, all that may hold them (`Index.page`).

    Returns about `bytes_max`, but at least all frames of the first entry. With `whole_frames`, ends with the last frame
    that fits.
    """
    bytes_max = min(bytes_max, PAGE_BYTES_MAX)
    parts: list[Columns] = []
    damaged: list[EntryRange] = []
    covered, taken, why_unread = last_entry, 0, ""
    for place in places:
        next_bytes = place.size if whole_frames and taken else 1
        if taken + next_bytes > bytes_max and place.first_entry > first_entry:
            covered = min(last_entry, place.first_entry - 1)
            break
        if place.last_entry < first_entry:
            continue
        columns = read_frame(files, ledger_id, place)
        if isinstance(columns, UnreadableFrame):
            log.error("damaged record in %s" if columns.is_damaged else "cannot read %s", columns.why)
            if not (damaged or columns.is_damaged):
                why_unread = columns.why
            damaged.append(EntryRange(place.first_entry, place.last_entry))
            continue
        part = columns.between(first_entry, last_entry)
        parts.append(part)
        taken += part.size_bytes
    found = merge(parts).between(first_entry, covered)
    if found.size_bytes > PAGE_BYTES_MAX:  # large frames, or frames of many tiny entries
        found = found.start_of(PAGE_BYTES_MAX)
        covered = found.last_entry
    return EntryPage(found, covered, tuple(damaged), why_unread)
