"""Asks bookies for the sizes of parts of large ledgers, because their entries may differ much in size."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ledgers.aio import LedgerClient

from .ranges import EntryRange, cost_of, plan, task_bytes
from .selection import Extent

SHARE_MEASURED = 4
"""Ledgers that cost more than a task's size divided by this are measured; others hardly change a task's size."""

STEPS_A_TASK = 16
"""Resolution of the measurement: steps per task."""

ASKED_AT_ONCE_MAX = 16


async def equal_tasks(
    uri: str, extents: Sequence[Extent], partition_bytes: int, partitions_min: int
) -> list[tuple[EntryRange, ...]]:
    """Partitions like `plan`, with sizes from the bookies; if bookies report none, bytes count as evenly spread."""
    task = task_bytes(extents, partition_bytes, partitions_min)
    large = [i for i, extent in enumerate(extents) if _cost(extent) * SHARE_MEASURED > task]
    found = list(extents)
    if large:
        measured = await _measured(uri, [extents[i] for i in large], max(1, task // STEPS_A_TASK))
        for i, extent in zip(large, measured, strict=True):
            found[i] = extent
    return plan(found, partition_bytes, partitions_min)


def _cost(extent: Extent) -> int:
    return cost_of(extent, extent.first_entry, extent.end - 1)


async def _measured(uri: str, extents: Sequence[Extent], step_bytes: int) -> list[Extent]:
    turns = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

    async def measure(client: LedgerClient, extent: Extent) -> Extent:
        async with turns:
            steps = await client.size_steps(
                extent.record,
                step_bytes=step_bytes,
                first_entry=extent.first_entry,
                last_entry=extent.last_entry,
            )
        return replace(extent, steps=steps)

    async with LedgerClient(uri) as client:
        return await asyncio.gather(*(measure(client, extent) for extent in extents))
