"""Which acceptor is to get which segments, and which are nobody's to copy."""

from __future__ import annotations

from dataclasses import replace

from metadata.records.journal_record import JournalStorage
from qjm_compat.acceptor.programs.sync_programs import SegmentsHeld
from qjm_compat.requests import RemoteEditLog
from qjm_compat.sync.plan import SyncPlan, SyncStep, plan

STORAGE = JournalStorage(-63, 7, "CID")


def log(start: int, end: int, epoch: int = 1) -> RemoteEditLog:
    return RemoteEditLog(start, end, writer_epoch=epoch)


def held(*logs: RemoteEditLog, purged_below: int = 0, vouched: int | None = None) -> SegmentsHeld:
    return SegmentsHeld(STORAGE, logs, purged_below, vouched)


ONE, TWO, THREE = log(1, 10), log(11, 20), log(21, 30)


def planned(*those: SegmentsHeld, targets: str = "abc") -> SyncPlan:
    return plan(dict(zip("abc", those, strict=False)), targets)


def test_where_everybody_has_everything_there_is_nothing_to_do() -> None:
    assert planned(held(ONE, TWO), held(ONE, TWO), held(ONE, TWO)) == SyncPlan()
    assert planned(held(), held(), held()) == SyncPlan()
    assert planned() == SyncPlan()


def test_each_gets_what_it_lacks_the_oldest_first_from_all_that_have_it() -> None:
    found = planned(held(ONE, TWO, THREE), held(TWO), held(ONE, TWO))
    assert found == SyncPlan(
        (SyncStep("b", ONE, ("a", "c")), SyncStep("b", THREE, ("a",)), SyncStep("c", THREE, ("a",)))
    )
    assert str(found.steps[0]) == "acceptor b, segment 1-10"


def test_only_those_get_something_who_are_to() -> None:
    found = planned(held(ONE, TWO), held(), held(TWO), targets="c")
    assert found.steps == (SyncStep("c", ONE, ("a",)),)


def test_a_segment_that_somebody_may_be_writing_is_told_apart() -> None:
    found = planned(held(ONE, TWO), replace(held(ONE), unsealed=frozenset({11, 21})), held(ONE, TWO))
    assert found.steps == (SyncStep("b", TWO, ("a", "c"), is_open=True),)


def test_what_anybody_has_purged_is_nobodys_to_copy() -> None:
    """Not even from one that missed the purge; the segment that the limit lies in stays."""
    found = planned(held(ONE, TWO, THREE), held(TWO, THREE, purged_below=15), held(THREE))
    assert found.steps == (SyncStep("c", TWO, ("a", "b")),)


def test_finalized_copies_that_differ_are_told_and_not_touched() -> None:
    found = planned(held(ONE, TWO), held(ONE, log(11, 19)), held(ONE))
    assert found.steps == ()
    assert found.violations == (
        "segment 11 is finalized differently: a has 11-20 of epoch 1, b has 11-19 of epoch 1",
    )
    found = planned(held(ONE, TWO), held(ONE, log(11, 20, 2)), held())
    assert [step.log.start_txid for step in found.steps] == [1]
    assert found.violations == (
        "segment 11 is finalized differently: a has 11-20 of epoch 1, b has 11-20 of epoch 2",
    )


def test_a_copy_whose_writer_is_not_known_is_like_any() -> None:
    found = planned(held(log(1, 10, 0)), held(log(1, 10, 3)), held())
    assert found == SyncPlan((SyncStep("c", log(1, 10, 3), ("a", "b")),))


def test_segments_that_reach_into_each_other_are_told_and_not_touched() -> None:
    found = planned(held(ONE, TWO, THREE), held(log(5, 25)), held())
    assert found.steps == ()
    assert found.violations == (
        "segment 5 begins inside segment 1: a has 1-10 of epoch 1; b has 5-25 of epoch 1",
        "segment 11 begins inside segment 5: b has 5-25 of epoch 1; a has 11-20 of epoch 1",
        "segment 21 begins inside segment 5: b has 5-25 of epoch 1; a has 21-30 of epoch 1",
    )


def test_acceptors_of_different_namespaces_give_each_other_nothing() -> None:
    other = replace(held(), storage=replace(STORAGE, namespace_id=8))
    found = planned(held(ONE), other)
    assert found.steps == ()
    assert found.violations[0].startswith("the acceptors are of different namespaces: a: ")


def test_what_one_of_them_may_have_dropped_waits_for_a_writer() -> None:
    """Whoever has it may be the one that a discard has not reached yet, or has been taken out of the journal."""
    found = planned(held(ONE, TWO), held(ONE, vouched=10), held())
    assert found.steps == (SyncStep("c", ONE, ("a", "b")),)
    (waits,) = found.waits
    assert waits.startswith("segment 11-20 waits: edits were dropped at acceptor b by a discard, ")
    assert waits.endswith("since reported that txid 20 is committed")
    assert planned(held(ONE, TWO), held(ONE, vouched=20), held(ONE)).waits == ()
