"""Which ledgers are due for the object store, and when bookies drop what was copied."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from ledgers.offloading.policy import OffloadPolicy, logs_by_maker, logs_of, relieving
from metadata.records.cold.cold_copy import ColdCopy, new_key
from metadata.records.ledger_record import SEGMENT, BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.logs.log_ledgers import SegmentOf
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.shared_ledgers import Maker
from metadata.records.registration import Registration

B1, B2 = BookieRef("b1", "i1"), BookieRef("b2", "i2")
OPEN = LedgerRecord(7, Shape(1, 1, 1), (Fragment(0, (B1,)),))
CLOSED = replace(OPEN.closed(9, 100), closed_ms=1_000_000)
COPY = ColdCopy("s3://archive", new_key(7, bytes(16)), (0,), 100, 1_000_000)
STORED = CLOSED.uploading(COPY)
POLICY = OffloadPolicy(after_seconds=10.0, keep_seconds=5.0, logs={"orders": 100.0, "hot": math.inf})


def is_due(record: LedgerRecord, now_ms: int, *logs: str) -> bool:
    return POLICY.may_copy(record, logs) and POLICY.is_old(record, logs, now_ms)


@pytest.mark.parametrize(("now_ms", "expected"), [(1_009_999, False), (1_010_000, True)])
def test_a_ledger_is_due_a_fixed_time_after_it_was_closed(now_ms: int, expected: bool) -> None:
    assert is_due(CLOSED, now_ms) is expected


def test_a_log_has_a_time_of_its_own_or_never() -> None:
    assert not is_due(CLOSED, 1_099_999, "orders")
    assert is_due(CLOSED, 1_100_000, "orders")
    assert not POLICY.may_copy(CLOSED, ["hot"])
    assert is_due(CLOSED, 1_010_000, "another")


def test_the_longest_time_applies_to_a_ledger_that_several_logs_share() -> None:
    assert is_due(CLOSED, 1_100_000, "orders", "another")
    assert not is_due(CLOSED, 1_099_999, "another", "orders")
    assert not POLICY.may_copy(CLOSED, ["orders", "hot"])


def test_a_segment_belongs_to_the_log_that_made_it_and_to_forks_that_share_it() -> None:
    origin = LogRecord(bytes(16), "origin")
    fork = LogRecord(b"\1" * 16, "fork", makers=(Maker(origin.identity, 40),))
    fork_of_fork = replace(
        fork, identity=b"\2" * 16, name="again", makers=(*fork.makers, Maker(fork.identity, 60))
    )

    def logs_with(position: int, maker: LogRecord, *logs: LogRecord) -> set[str]:
        made = SegmentOf(maker.identity, position, 1).encoded()
        segment = replace(CLOSED, custom_metadata={SEGMENT: made})
        return set(logs_of(segment, logs_by_maker(logs)))

    every = (origin, fork, fork_of_fork)
    assert logs_with(39, origin, *every) == {"origin", "fork", "again"}
    assert logs_with(40, origin, *every) == {"origin"}
    assert logs_with(40, fork, *every) == {"fork", "again"}
    assert logs_with(60, fork, *every) == {"fork"}
    assert logs_with(60, fork_of_fork, *every) == {"again"}
    assert logs_with(39, origin, fork) == {"fork"}, "the log that made it is gone"
    assert logs_of(CLOSED, logs_by_maker(every)) == []


@pytest.mark.parametrize(
    "record", [OPEN, OPEN.in_recovery(), replace(OPEN.closed(-1, 0), closed_ms=1), STORED]
)
def test_an_open_an_empty_and_a_copied_ledger_are_never_copied(record: LedgerRecord) -> None:
    assert not POLICY.may_copy(record, [])


def one(bookie: BookieRef, total: int, free: int) -> Registration:
    return Registration(bookie, "a:1", disk_bytes_total=total, disk_bytes_free=free)


def test_a_bookie_has_to_lose_the_bytes_above_the_mark_and_one_of_unknown_size_none() -> None:
    policy = replace(POLICY, used_percent_max=80.0)
    assert policy.bytes_over([one(B1, 1000, 150), one(B2, 1000, 200)]) == {B1: 50}
    assert policy.bytes_over([one(B1, 0, 0)]) == {}
    assert POLICY.bytes_over([one(B1, 1000, 0)]) == {}


def closed_at(ms: int, *bookies: BookieRef, size: int = 100) -> LedgerRecord:
    count = len(bookies)
    record = LedgerRecord(ms, Shape(count, count, 1), (Fragment(0, bookies),))
    return replace(record.closed(9, size), closed_ms=ms)


def test_the_oldest_ledgers_of_a_full_bookie_are_copied_and_no_more_than_it_takes() -> None:
    others = [closed_at(ms, B1) for ms in (5, 3, 1, 4)] + [closed_at(2, B2)]
    assert [r.ledger_id for r in relieving(Counter({B1: 150}), [], others)] == [1, 3]
    assert [r.ledger_id for r in relieving(Counter({B1: 200}), [], others)] == [1, 3]
    assert [r.ledger_id for r in relieving(Counter({B1: 201}), [], others)] == [1, 3, 4]
    assert [r.ledger_id for r in relieving(Counter({B1: 10**6}), [], others)] == [1, 3, 4, 5]
    assert relieving(Counter(), [], others) == []


def test_ledgers_that_leave_a_full_bookie_anyway_count_first() -> None:
    others = [closed_at(ms, B1, B2) for ms in (3, 4)]
    assert [r.ledger_id for r in relieving(Counter({B1: 150}), [closed_at(1, B1)], others)] == [3]
    assert relieving(Counter({B1: 150}), [closed_at(1, B1), closed_at(2, B1)], others) == []
    assert relieving(Counter({B1: 150}), [closed_at(1, B1, size=150)], others) == []


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
