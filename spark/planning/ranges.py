"""Partitions the entries that a job reads into tasks of equal bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .selection import Extent

PARTITION_BYTES_DEFAULT = 64 * 1024 * 1024
PARTITIONS_MIN_DEFAULT = 8
PARTITIONS_MAX = 100_000

TASK_BYTES_MIN = 1024 * 1024
"""Tasks are not made smaller than this to reach `partitions_min`, because starting more tasks would cost more than it
would save."""

ENTRY_OVERHEAD_BYTES = 4
"""Cost of an entry in addition to its payload, so that empty entries count."""

LEDGER_OVERHEAD_BYTES = 16 * 1024
"""Cost of opening another ledger, expressed as the number of bytes that could have been read in the same time."""


@dataclass(frozen=True, slots=True)
class LedgerRange:
    """Entries `first_entry` … `last_entry` of one closed ledger."""

    ledger_id: int
    first_entry: int
    last_entry: int


def cost_of(extent: Extent, first_entry: int, last_entry: int) -> int:
    """Estimates the cost of reading these entries, in bytes."""
    payload = extent.bytes_before(last_entry + 1) - extent.bytes_before(first_entry)
    return payload + ENTRY_OVERHEAD_BYTES * (last_entry - first_entry + 1)


def plan(
    extents: Sequence[Extent],
    partition_bytes: int = PARTITION_BYTES_DEFAULT,
    partitions_min: int = PARTITIONS_MIN_DEFAULT,
) -> list[tuple[LedgerRange, ...]]:
    """Returns tasks of equal cost, which is about `partition_bytes`, or less if needed to reach `partitions_min`.

    Each entry is in exactly one range; the ranges are ordered by ledger and entry, across tasks too. No task costs more
    than `task_bytes` plus one entry; capacity that one task leaves unused is added to the next.
    """
    share = _share(extents, partition_bytes, partitions_min)
    tasks: list[list[LedgerRange]] = []
    left = 0
    for extent in extents:
        first, last = extent.first_entry, _last(extent)
        while first <= last:
            room = left - LEDGER_OVERHEAD_BYTES
            if room < cost_of(extent, first, first):
                tasks.append([])
                left = room = max(0, left) + share
            end = _end_of_piece(extent, first, last, room)
            tasks[-1].append(LedgerRange(extent.record.ledger_id, first, end))
            left = room - cost_of(extent, first, end)
            first = end + 1
    return [tuple(task) for task in tasks]


def task_bytes(extents: Sequence[Extent], partition_bytes: int, partitions_min: int) -> int:
    """Returns the upper bound on a task's cost."""
    total = _total(extents)
    wanted = min(partition_bytes, max(TASK_BYTES_MIN, -(-total // partitions_min)))
    return max(wanted, -(-total // PARTITIONS_MAX))


def _share(extents: Sequence[Extent], partition_bytes: int, partitions_min: int) -> int:
    """Returns the cost of each task if there are as few tasks as possible and all cost the same, so that the last one
    is not tiny."""
    total = _total(extents)
    tasks = -(-total // task_bytes(extents, partition_bytes, partitions_min))
    return -(-total // max(1, tasks))


def _total(extents: Sequence[Extent]) -> int:
    return sum(
        cost_of(extent, extent.first_entry, _last(extent)) + LEDGER_OVERHEAD_BYTES for extent in extents
    )


def _last(extent: Extent) -> int:
    assert extent.last_entry is not None, "only what is clipped can be planned"
    return extent.last_entry


def _end_of_piece(extent: Extent, first: int, last: int, room: int) -> int:
    """Returns the last entry that still fits, found by binary search; at least `first`, even if that does not fit."""
    if cost_of(extent, first, last) <= room:
        return last
    low, high = first, last
    while low < high:
        middle = (low + high + 1) // 2
        if cost_of(extent, first, middle) <= room:
            low = middle
        else:
            high = middle - 1
    return low
