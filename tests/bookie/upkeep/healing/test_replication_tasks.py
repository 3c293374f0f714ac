"""What must be copied, and who may take it: records and views of clusters in, needs out.

H2: what lacks copies is marked and made whole, in as many fault domains as there are. How it is done: test_worker.py,
and on real bookies integration/test_healing.py.
H3: nothing is copied for a bookie that restarts or is in maintenance, nor where half of the cluster is gone.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.upkeep.healing.cluster_view import ClusterView, Fate
from bookie.upkeep.healing.replication_tasks import is_left_behind, replication_tasks, takers
from bookie.upkeep.mending.replication_task import Reason, ReplicationTask
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


# --- who is lost, and which part of a ledger

LOST_A = [(0, "a", Reason.LOST)]
ALL_BUT_A = (B, C, D, E, F)
GONE_FOR_LONG = view(*ALL_BUT_A, absent_ms=LONG)
RESTARTING = dict.fromkeys("ab", RESTART_MS)
LACKING = ABC.with_lacking(1, 10, 20)
GOES_ON = LedgerRecord(7, WHOLE, (ABC, Fragment(50, (A, B, D), 500)))


@pytest.mark.parametrize(
    ("record", "seen", "needs"),
    [
        pytest.param(closed(ABC), view(A, *ALL_BUT_A), [], id="one that lives needs nothing"),
        pytest.param(closed(ABC), view(*ALL_BUT_A), [], id="one that has just vanished is waited for"),
        pytest.param(
            closed(ABC),
            view(*ALL_BUT_A, absent_ms={"a": WAIT_MS - 1}),
            [],
            id="and waited for until its time is over",
        ),
        pytest.param(closed(ABC), GONE_FOR_LONG, LOST_A, id="one that is absent for long is lost"),
        pytest.param(
            closed(Fragment(0, (BookieRef("a", "before"), B, C))),
            view(A, B, C, D),
            LOST_A,
            id="W7: what stood under an earlier incarnation never comes back",
        ),
        pytest.param(
            closed(ABC),
            view(*ALL_BUT_A, orders={"a": OrderKind.GIVEN_UP}),
            LOST_A,
            id="one that was given up is lost at once",
        ),
        pytest.param(
            closed(ABC),
            view(*ALL_BUT_A, absent_ms={"a": 9_000_000}, orders={"a": OrderKind.MAINTENANCE}),
            [],
            id="one in maintenance is waited for as long as it takes",
        ),
        pytest.param(
            closed(ABC),
            view(A, B, C, D, orders={"a": OrderKind.DRAIN}),
            [(0, "a", Reason.DRAINING)],
            id="one that is drained is copied while it lives",
        ),
        pytest.param(
            closed(ABC),
            view(C, D, E, F, absent_ms=RESTARTING),
            [*LOST_A, (0, "b", Reason.LOST)],
            id="where a second copy is gone the delay is over",
        ),
        pytest.param(
            closed(ABC),
            view(C, D, E, F, absent_ms={"a": 1, "b": 1}),
            [],
            id="but not before either could have restarted",
        ),
        pytest.param(
            closed(Fragment(0, (A, D, E))),
            view(C, D, E, F, absent_ms=RESTARTING),
            [],
            id="nor for copies of other ledgers",
        ),
        pytest.param(
            closed(LACKING),
            view(*ALL_BUT_A, absent_ms=SHORT),
            [*LOST_A, (0, "b", Reason.LACKING)],
            id="a copy that lacks something counts as gone",
        ),
        pytest.param(
            GOES_ON, GONE_FOR_LONG, LOST_A, id="the last fragment of an open ledger is its writer's"
        ),
        pytest.param(
            replace(GOES_ON, state=LedgerState.IN_RECOVERY), GONE_FOR_LONG, [], id="a recovery is let alone"
        ),
        pytest.param(
            closed(LACKING),
            view(A, B, C),
            [(0, "b", Reason.LACKING)],
            id="what a copy lacks is for its own bookie",
        ),
        pytest.param(closed(LACKING), view(A, C, D, E, F), [], id="which is asked again when it is back"),
    ],
)
def test_H2_what_must_be_copied_and_why(
    record: LedgerRecord, seen: ClusterView, needs: list[tuple[int, str, Reason]]
) -> None:
    assert found(record, seen) == needs


def test_a_task_says_what_it_is_and_reaches_to_the_end_of_its_fragment() -> None:
    (task,) = replication_tasks(GOES_ON, GONE_FOR_LONG)
    assert (task.last_entry, str(task)) == (49, "entries 0 to 49: a is lost")


def test_a_bookie_that_is_drained_takes_nothing() -> None:
    seen = view(A, B, C, D, orders={"a": OrderKind.DRAIN})
    assert seen.fate(A) is Fate.DRAINING and A not in [one.bookie for one in seen.takers()]


def test_H3_nothing_is_copied_when_half_of_the_cluster_vanishes_at_once() -> None:
    """It looks like a network that failed; those that an operator gives up are copied all the same."""
    seen = view(D, E, F, absent_ms=dict.fromkeys("abc", WAIT_MS))
    assert seen.is_braked and seen.unexpectedly_absent == ["a", "b", "c"]
    assert found(closed(ABC), seen) == []
    given_up = replace(seen, orders={"a": OrderKind.GIVEN_UP})
    assert given_up.is_braked
    assert found(closed(ABC), given_up) == LOST_A
    assert not view(B, formatted="ab", absent_ms=LONG).is_braked, "one of two is no half of a cluster"


# --- who takes it ------------------------------------------------------------------------------


def test_only_a_bookie_that_takes_entries_and_is_not_there_yet_may_take_a_place() -> None:
    seen = view(B, C, D, E, F, absent_ms=LONG, read_only="e", orders={"f": OrderKind.DRAIN})
    (task,) = replication_tasks(closed(ABC), seen)
    assert [str(one.bookie) for one in takers(task, seen)] == ["d"]


def test_a_bookie_that_does_not_heal_takes_no_place() -> None:
    """H2: nobody would copy anything, and nobody else would try."""
    seen = view(B, C, D, E, absent_ms=LONG)
    stubborn = {one: replace(found, heals=one != D) for one, found in seen.living.items()}
    (task,) = replication_tasks(closed(ABC), seen)
    assert [str(one.bookie) for one in takers(task, replace(seen, living=stubborn))] == ["e"]


def test_H2_a_place_goes_to_a_rack_without_a_copy_if_there_is_one() -> None:
    racks = {"b": "r1", "c": "r2", "d": "r1", "e": "r3", "f": "r2"}
    seen = view(B, C, D, E, F, absent_ms=LONG, racks=racks)
    (task,) = replication_tasks(closed(ABC), seen)
    assert [str(one.bookie) for one in takers(task, seen)] == ["e"]
    crowded = view(B, C, D, F, absent_ms=LONG, racks=racks)
    assert [str(one.bookie) for one in takers(task, crowded)] == ["d", "f"]


def test_H2_two_copies_in_one_rack_are_taken_apart_where_that_can_be() -> None:
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
