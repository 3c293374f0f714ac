"""What must be copied, and who may take it: records and views of clusters in, needs out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.upkeep.healing.replication_tasks import is_left_behind, replication_tasks, takers
from bookie.upkeep.healing.view import ClusterView, Fate
from bookie.upkeep.mending.replication_task import Reason, ReplicationTask
from metadata import placement
from metadata.healing.absent_bookies import RESTART_MS
from metadata.healing.operator_requests import OrderKind
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.registration import Registration

from .views import LONG, SHORT, WAIT_MS, WHOLE, A, B, C, D, E, F, closed, view

ABC = Fragment(0, (A, B, C))


def found(record: LedgerRecord, seen: ClusterView) -> list[tuple[int, str, Reason]]:
    return [
        (task.fragment.first_entry, str(task.bookie), task.reason) for task in replication_tasks(record, seen)
    ]


# --- who is lost -------------------------------------------------------------------------------


def test_a_bookie_that_lives_needs_nothing() -> None:
    assert found(closed(ABC), view(A, B, C, D, E, F)) == []


def test_a_bookie_that_has_just_vanished_is_waited_for() -> None:
    assert found(closed(ABC), view(B, C, D, E, F)) == []
    assert found(closed(ABC), view(B, C, D, E, F, absent_ms={"a": WAIT_MS - 1})) == []


def test_a_bookie_that_is_absent_for_long_is_lost() -> None:
    assert found(closed(ABC), view(B, C, D, E, F, absent_ms=LONG)) == [(0, "a", Reason.LOST)]


def test_what_stood_under_an_earlier_incarnation_never_comes_back() -> None:
    """W7: the disk was exchanged; there is nothing to wait for."""
    old = BookieRef("a", "before")
    assert found(closed(Fragment(0, (old, B, C))), view(A, B, C, D)) == [(0, "a", Reason.LOST)]


def test_a_bookie_that_was_given_up_is_lost_at_once() -> None:
    seen = view(B, C, D, E, F, orders={"a": OrderKind.GIVEN_UP})
    assert found(closed(ABC), seen) == [(0, "a", Reason.LOST)]


def test_a_bookie_in_maintenance_is_waited_for_as_long_as_it_takes() -> None:
    orders = {"a": OrderKind.MAINTENANCE}
    assert found(closed(ABC), view(B, C, D, E, F, absent_ms={"a": 9_000_000}, orders=orders)) == []


def test_a_bookie_that_is_drained_is_copied_while_it_lives() -> None:
    seen = view(A, B, C, D, orders={"a": OrderKind.DRAIN})
    assert found(closed(ABC), seen) == [(0, "a", Reason.DRAINING)]
    assert seen.fate(A) is Fate.DRAINING and A not in [one.bookie for one in seen.takers()]


def test_where_a_second_copy_is_gone_the_delay_is_over() -> None:
    """But not before either could have restarted."""
    gone = {"a": RESTART_MS, "b": RESTART_MS}
    lost = [(0, "a", Reason.LOST), (0, "b", Reason.LOST)]
    assert found(closed(ABC), view(C, D, E, F, absent_ms=gone)) == lost
    assert found(closed(ABC), view(C, D, E, F, absent_ms={"a": 1, "b": 1})) == []
    assert found(closed(Fragment(0, (A, D, E))), view(C, D, E, F, absent_ms=gone)) == []


def test_a_copy_that_lacks_something_counts_as_gone() -> None:
    lacking = ABC.with_lacking(1, 10, 20)
    expected = [(0, "a", Reason.LOST), (0, "b", Reason.LACKING)]
    assert found(closed(lacking), view(B, C, D, E, F, absent_ms=SHORT)) == expected


def test_nothing_is_copied_when_half_of_the_cluster_vanishes_at_once() -> None:
    """It looks like a network that failed; those that an operator gives up are copied all the same."""
    gone = dict.fromkeys("abc", WAIT_MS)
    seen = view(D, E, F, absent_ms=gone)
    assert seen.is_braked and seen.unexpectedly_absent == ["a", "b", "c"]
    assert found(closed(ABC), seen) == []
    given_up = replace(seen, orders={"a": OrderKind.GIVEN_UP})
    assert given_up.is_braked
    assert found(closed(ABC), given_up) == [(0, "a", Reason.LOST)]


def test_one_bookie_of_two_is_no_half_of_a_cluster() -> None:
    assert not view(B, formatted="ab", absent_ms=LONG).is_braked


# --- which part of a ledger --------------------------------------------------------------------


def test_the_last_fragment_of_an_open_ledger_is_its_writers() -> None:
    record = LedgerRecord(7, WHOLE, (ABC, Fragment(50, (A, B, D), 500)))
    assert found(record, view(B, C, D, E, F, absent_ms=LONG)) == [(0, "a", Reason.LOST)]
    assert replication_tasks(record, view(B, C, D, E, F, absent_ms=LONG))[0].last_entry == 49


def test_a_ledger_in_recovery_is_let_alone() -> None:
    record = replace(LedgerRecord(7, WHOLE, (ABC, Fragment(50, (A, B, D)))), state=LedgerState.IN_RECOVERY)
    assert found(record, view(B, C, D, E, F, absent_ms=LONG)) == []


def test_what_a_copy_lacks_is_for_its_own_bookie_while_that_lives() -> None:
    record = closed(ABC.with_lacking(2, 5, 6))
    assert found(record, view(A, B, C)) == [(0, "c", Reason.LACKING)]
    assert found(record, view(A, B, D, E, F, formatted="abcdef")) == []  # away: asked again when it is back


# --- who takes it ------------------------------------------------------------------------------


def test_only_a_bookie_that_takes_entries_and_is_not_there_yet_may_take_a_place() -> None:
    seen = view(B, C, D, E, F, absent_ms=LONG, read_only="e", orders={"f": OrderKind.DRAIN})
    (task,) = replication_tasks(closed(ABC), seen)
    assert [str(one.bookie) for one in takers(task, seen)] == ["d"]


def test_H2_a_bookie_that_does_not_heal_takes_no_place() -> None:
    """H2: nobody would copy anything, and nobody else would try."""
    seen = view(B, C, D, E, absent_ms=LONG)
    stubborn = {one: replace(found, heals=one != D) for one, found in seen.living.items()}
    (task,) = replication_tasks(closed(ABC), seen)
    assert [str(one.bookie) for one in takers(task, replace(seen, living=stubborn))] == ["e"]


def test_a_place_goes_to_a_rack_without_a_copy_if_there_is_one() -> None:
    racks = {"b": "r1", "c": "r2", "d": "r1", "e": "r3", "f": "r2"}
    seen = view(B, C, D, E, F, absent_ms=LONG, racks=racks)
    (task,) = replication_tasks(closed(ABC), seen)
    assert [str(one.bookie) for one in takers(task, seen)] == ["e"]
    crowded = view(B, C, D, F, absent_ms=LONG, racks=racks)
    assert [str(one.bookie) for one in takers(task, crowded)] == ["d", "f"]


def test_two_copies_in_one_rack_are_taken_apart_where_that_can_be() -> None:
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r3"}
    assert found(closed(ABC), view(A, B, C, D, racks=racks)) == [(0, "a", Reason.MISPLACED)]
    assert found(closed(ABC), view(A, B, C, racks=racks)) == []
    assert found(closed(ABC), view(A, B, C, D, racks={**racks, "d": "r2"})) == []


def test_of_a_striped_ledger_only_those_that_hold_the_same_entries_stand_beside_a_copy() -> None:
    """b's neighbours are a and c; d, which stands in the rack that b stood in, shares no entry with it."""
    racks = {"a": "r1", "b": "r2", "c": "r3", "d": "r2", "e": "r1", "f": "r2"}
    fragment = Fragment(0, (A, B, C, D))
    seen = view(A, C, D, E, F, racks=racks, absent_ms={"b": WAIT_MS}, orders={"b": OrderKind.GIVEN_UP})
    (task,) = replication_tasks(closed(fragment, shape=Shape(4, 2, 2)), seen)
    assert (task.bookie, sorted(map(str, task.beside))) == (B, ["a", "c"])
    assert [str(one.bookie) for one in takers(task, seen)] == ["f"]


@given(st.data())
def test_a_taker_stands_as_well_as_any_that_there_is(data: st.DataObject) -> None:
    """Against brute force: no candidate would share its rack with fewer copies, nor then its host."""
    racks = {name: data.draw(st.sampled_from(["", "r1", "r2", "r3"])) for name in "abcdef"}
    living = [one for one in (B, C, D, E, F) if data.draw(st.booleans())]
    seen = view(*living, racks=racks, absent_ms=dict.fromkeys("abcdef", WAIT_MS), orders=GONE)
    task = ReplicationTask(ABC, 99, 0, Reason.LOST, 3)
    chosen = takers(task, seen)
    candidates = [one for one in living if one not in (B, C)]
    beside = [seen.living[one] for one in (B, C) if one in living]
    assert bool(chosen) == bool(candidates)

    def shared(one: Registration) -> int:
        return [other.fault_domain for other in beside].count(one.fault_domain)

    least = min((shared(seen.living[one]) for one in candidates), default=0)
    assert all(shared(one) == least for one in chosen)
    assert len(chosen) == sum(shared(seen.living[one]) == least for one in candidates)


GONE = {"a": OrderKind.GIVEN_UP}


def test_a_bookie_that_has_not_told_of_its_disk_yet_is_chosen_like_the_others() -> None:
    rng = random.Random(7)
    told = Registration(A, "a:1", disk_bytes_total=8 << 30, disk_bytes_free=4 << 30)
    silent = Registration(B, "b:1")
    chosen = [placement.choose([told, silent], 1, rng=rng)[0].bookie for _ in range(1000)]
    assert 400 < chosen.count(B) < 600


@pytest.mark.parametrize(("free", "least"), [((1, 1), 350), ((1, 3), 600), ((1, 0), 0)])
def test_bookies_with_more_room_are_chosen_more_often(free: tuple[int, int], least: int) -> None:
    """In proportion: of a thousand choices between two."""
    rng = random.Random(7)
    candidates = [
        Registration(one, f"{one}:1", disk_bytes_total=8 << 30, disk_bytes_free=gib << 30)
        for one, gib in zip((A, B), free, strict=True)
    ]
    chosen = [placement.choose(candidates, 1, rng=rng)[0].bookie for _ in range(1000)]
    assert chosen.count(B) >= least
    assert chosen.count(B) <= least + 300


# --- ledgers that nobody closes ------------------------------------------------------------------


def test_a_ledger_is_left_behind_when_its_writer_did_not_replace_a_lost_bookie() -> None:
    """Where there is another one; a ledger that is reserved has no writer yet."""
    record = LedgerRecord(7, WHOLE, (ABC,))
    lost = view(B, C, D, absent_ms=LONG, formatted="abcd")
    assert is_left_behind(record, lost)
    assert not is_left_behind(record, view(B, C, absent_ms=LONG, formatted="abc"))
    assert not is_left_behind(record, view(A, B, C, D))
    assert not is_left_behind(replace(record, reserved=True), lost)
    assert not is_left_behind(record.closed(99, 1000), lost)
    assert is_left_behind(record.in_recovery(), view(A, B, C, D))


def test_a_need_says_what_it_is() -> None:
    (task,) = replication_tasks(closed(ABC), view(B, C, D, E, F, absent_ms=LONG))
    assert str(task) == "entries 0 to 99: a is lost"
