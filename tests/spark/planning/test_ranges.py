"""Tasks hold every entry once, in order, and are as large as they may be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark.planning import ranges as planning
from spark.planning.ranges import (
    LEDGER_OVERHEAD_BYTES,
    PARTITIONS_MAX,
    TASK_BYTES_MIN,
    EntryRange,
    cost_of,
    plan,
)
from spark.planning.selection import Extent
from tests.spark.made import closed, records


@st.composite
def extents_of_ledgers(draw: st.DrawFn) -> list[Extent]:
    """Parts of up to six ledgers, none empty, as `Selection.resolve` gives them."""
    found = []
    for ledger_id in range(draw(st.integers(0, 6))):
        record = draw(records(ledger_id))
        first = draw(st.integers(0, 100))
        last = draw(st.one_of(st.none(), st.integers(first, 6000)))
        found.append(Extent(record, first, last).clipped())
    return [extent for extent in found if extent.entries]


def entries_of(ranges: list[EntryRange]) -> list[tuple[int, int]]:
    return [(r.ledger_id, entry) for r in ranges for entry in range(r.first_entry, r.last_entry + 1)]


def cost_of_task(task: tuple[EntryRange, ...], extents: list[Extent]) -> int:
    of_ledger = {extent.record.ledger_id: extent for extent in extents}
    entries = sum(cost_of(of_ledger[r.ledger_id], r.first_entry, r.last_entry) for r in task)
    return entries + LEDGER_OVERHEAD_BYTES * (len(task) - 1)


def target_of(extents: list[Extent], partition_bytes: int, partitions_min: int) -> int:
    total = sum(
        cost_of(e, e.first_entry, e.first_entry + e.entries - 1) + LEDGER_OVERHEAD_BYTES for e in extents
    )
    return min(partition_bytes, max(TASK_BYTES_MIN, -(-total // partitions_min)))


sizes = st.integers(1_000, 20_000_000)


@given(extents_of_ledgers(), sizes, st.integers(1, 50))
def test_each_entry_is_in_exactly_one_range_and_in_order(
    extents: list[Extent], partition_bytes: int, partitions_min: int
) -> None:
    tasks = plan(extents, partition_bytes, partitions_min)
    wanted = [
        (e.record.ledger_id, entry)
        for e in extents
        for entry in range(e.first_entry, e.first_entry + e.entries)
    ]
    assert entries_of([r for task in tasks for r in task]) == wanted
    assert all(tasks)


@given(extents_of_ledgers(), sizes, st.integers(1, 50))
@example([Extent(closed(1, 1000, 10_000)).clipped()], 64 << 20, 8)
def test_tasks_are_as_large_as_they_may_be_and_no_larger(
    extents: list[Extent], partition_bytes: int, partitions_min: int
) -> None:
    tasks = plan(extents, partition_bytes, partitions_min)
    target = target_of(extents, partition_bytes, partitions_min)
    of_ledger = {extent.record.ledger_id: extent for extent in extents}
    for task, following in pairwise(tasks):
        first = following[0]
        next_entry = cost_of(of_ledger[first.ledger_id], first.first_entry, first.first_entry)
        assert cost_of_task(task, extents) + LEDGER_OVERHEAD_BYTES + next_entry > target
    for task in tasks:
        is_single = len(task) == 1 and task[0].first_entry == task[0].last_entry
        assert is_single or cost_of_task(task, extents) <= target


def test_a_small_ledger_is_one_task_and_a_large_one_at_least_so_many() -> None:
    assert len(plan([Extent(closed(1, 1000, 10_000)).clipped()])) == 1
    large = plan([Extent(closed(1, 100_000, 100_000_000)).clipped()], partitions_min=8)
    assert 8 <= len(large) <= 9


def test_many_tiny_ledgers_share_tasks() -> None:
    tasks = plan([Extent(closed(i, 5, 500)).clipped() for i in range(10_000)])
    assert 8 <= len(tasks) <= 10
    assert max(len(task) for task in tasks) < 1.3 * 10_000 / len(tasks)


@pytest.mark.long
def test_no_job_has_more_tasks_than_spark_bears() -> None:
    tasks = plan([Extent(closed(1, 300_000, 0)).clipped()], partition_bytes=1)
    assert len(tasks) <= PARTITIONS_MAX


def test_bytes_before_an_entry_are_exact_where_fragments_begin() -> None:
    record = closed(1, 100, 10_000)
    assert Extent(record).bytes_before(0) == 0
    assert Extent(record).bytes_before(50) == 5000
    assert Extent(record).bytes_before(100) == 10_000
    assert planning.cost_of(Extent(record), 0, 99) == 10_000 + 100 * planning.ENTRY_OVERHEAD_BYTES
