"""Which ledgers are due for the object store, and when bookies drop what was copied."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ledgers.offloading.policy import OffloadPolicy
from metadata.records.cold.cold_copy import ColdCopy, new_key
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.registration import Registration

B1, B2 = BookieRef("b1", "i1"), BookieRef("b2", "i2")
OPEN = LedgerRecord(7, Shape(1, 1, 1), (Fragment(0, (B1,)),))
CLOSED = replace(OPEN.closed(9, 100), closed_ms=1_000_000)
COPY = ColdCopy("s3://archive", new_key(7, bytes(16)), (0,), 100, 1_000_000)
STORED = CLOSED.uploading(COPY)
NOBODY: frozenset[BookieRef] = frozenset()
POLICY = OffloadPolicy(after_seconds=10.0, keep_seconds=5.0, logs={"orders": 100.0, "hot": math.inf})


@pytest.mark.parametrize(("now_ms", "is_due"), [(1_009_999, False), (1_010_000, True)])
def test_a_ledger_is_due_so_long_after_it_was_closed(now_ms: int, is_due: bool) -> None:
    assert POLICY.is_due(CLOSED, None, now_ms, NOBODY) is is_due


def test_a_log_has_a_time_of_its_own_or_never() -> None:
    assert not POLICY.is_due(CLOSED, "orders", 1_099_999, NOBODY)
    assert POLICY.is_due(CLOSED, "orders", 1_100_000, NOBODY)
    assert not POLICY.is_due(CLOSED, "hot", 10**15, NOBODY)
    assert POLICY.is_due(CLOSED, "another", 1_010_000, NOBODY)


@pytest.mark.parametrize(
    "record", [OPEN, OPEN.in_recovery(), replace(OPEN.closed(-1, 0), closed_ms=1), STORED]
)
def test_what_is_open_or_empty_or_copied_is_never_due(record: LedgerRecord) -> None:
    assert not POLICY.is_due(record, None, 10**15, frozenset({B1}))


def test_what_is_on_a_bookie_whose_disk_is_full_is_due_at_once_unless_its_log_is_excluded() -> None:
    assert POLICY.is_due(CLOSED, None, 1_000_001, frozenset({B1}))
    assert not POLICY.is_due(CLOSED, None, 1_000_001, frozenset({B2}))
    assert not POLICY.is_due(CLOSED, "hot", 1_000_001, frozenset({B1}))


def test_a_disk_is_full_above_the_mark_and_one_of_unknown_size_never_is() -> None:
    def one(bookie: BookieRef, total: int, free: int) -> Registration:
        return Registration(bookie, "a:1", disk_bytes_total=total, disk_bytes_free=free)

    policy = replace(POLICY, used_percent_max=80.0)
    assert policy.full([one(B1, 100, 19), one(B2, 100, 20)]) == {B1}
    assert policy.full([one(B1, 0, 0)]) == NOBODY
    assert POLICY.full([one(B1, 100, 0)]) == NOBODY


def test_bookies_drop_what_was_copied_after_a_while_and_not_what_is_being_copied_or_recalled() -> None:
    assert not POLICY.is_to_be_dropped(STORED, 1_004_999)
    assert POLICY.is_to_be_dropped(STORED, 1_005_000)
    for record in (
        CLOSED,
        CLOSED.uploading(replace(COPY, part_starts=())),
        STORED.without_copies(),
        STORED.without_copies().recalled((B2,)),
    ):
        assert not POLICY.is_to_be_dropped(record, 10**15)
