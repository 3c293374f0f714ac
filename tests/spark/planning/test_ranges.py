"""Tasks hold every entry once, in order, and are as large as they may be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark.planning import ranges as planning
from spark.planning.ranges import (
    LEDGER_OVERHEAD_BYTES,
    PARTITIONS_MAX,
    LedgerRange,
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


def entries_of(ranges: list[LedgerRange]) -> list[tuple[int, int]]:
    return [(r.ledger_id, entry) for r in ranges for entry in range(r.first_entry, r.last_entry + 1)]


def cost_of_task(task: Sequence[LedgerRange], extents: list[Extent]) -> int:
    of_ledger = {extent.record.ledger_id: extent for extent in extents}
    entries = sum(cost_of(of_ledger[r.ledger_id], r.first_entry, r.last_entry) for r in task)
    return entries + LEDGER_OVERHEAD_BYTES * (len(task) - 1)


def share_of(extents: list[Extent], target: int) -> int:
    """What each of as few tasks as possible costs."""
    whole = cost_of_task(
        [LedgerRange(e.record.ledger_id, e.first_entry, e.end - 1) for e in extents], extents
    )
    return whole // max(1, -(-whole // target))


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
def test_no_task_is_larger_than_it_may_be_by_more_than_an_entry_nor_are_there_more_than_that_takes(
    extents: list[Extent], partition_bytes: int, partitions_min: int
) -> None:
    tasks = plan(extents, partition_bytes, partitions_min)
    target = planning.task_bytes(extents, partition_bytes, partitions_min)
    largest = max([cost_of(e, i, i) for e in extents for i in range(e.first_entry, e.end)], default=0)
    slack = largest + LEDGER_OVERHEAD_BYTES
    for task in tasks:
        assert cost_of_task(task, extents) <= target + slack
    for task, following in pairwise(tasks):
        assert cost_of_task([*task, *following], extents) + slack > share_of(extents, target)


def test_entries_of_equal_size_make_equal_tasks_and_no_stump() -> None:
    extents = [Extent(closed(1, 100_000, 100_000_000)).clipped()]
    costs = [cost_of_task(task, extents) for task in plan(extents, partition_bytes=9_000_000)]
    assert len(costs) == 12
    assert max(costs) - min(costs) < LEDGER_OVERHEAD_BYTES + 3000


def test_tasks_follow_what_the_bookies_told_of_sizes() -> None:
    """Five million entries of two bytes and five thousand of a million: spread evenly, one task had nearly all."""
    small, large = 5_000_000, 5_000
    record = closed(1, small + large, 2 * small + 1_000_000 * large)
    steps = [(0, 0), (small, 2 * small), (small + large, record.length_bytes or 0)]
    extents = [Extent(record, steps=steps).clipped()]
    costs = [cost_of_task(task, extents) for task in plan(extents)]
    assert len(costs) > 70
    assert max(costs) < 1.1 * min(costs)


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
