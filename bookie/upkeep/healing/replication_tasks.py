"""Computes a ledger's re-replication tasks, and the bookies that may take them. Pure: record and view in, tasks out."""

from __future__ import annotations

from metadata import placement
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState
from metadata.records.registration import Registration

from ..mending.replication_task import Reason, ReplicationTask
from .cluster_view import ClusterView, Fate


def replication_tasks(record: LedgerRecord, view: ClusterView) -> list[ReplicationTask]:
    """Returns a task for each copy that must be made, completed or moved in the closed parts of a ledger.

    A ledger in recovery has no tasks, because its record is about to change.
    """
    part = None if record.state is LedgerState.IN_RECOVERY else record.closed_part()
    if part is None:
        return []
    found: list[ReplicationTask] = []
    for fragment, last in part.spans():
        assert last is not None
        found += _tasks_of(fragment, last, view, record.shape.write_quorum)
    return found


def _tasks_of(
    fragment: Fragment, last_entry: int, view: ClusterView, write_quorum: int
) -> list[ReplicationTask]:
    fates = [view.fate(bookie) for bookie in fragment.ensemble]
    if Fate.AWAY in fates and _is_urgent(fragment, fates, write_quorum):
        both = zip(fates, fragment.ensemble, strict=True)
        fates = [Fate.LOST if f is Fate.AWAY and view.is_missed(bookie) else f for f, bookie in both]
    found = []
    for n, fate in enumerate(fates):
        reason = _reason(fragment, n, fate)
        if reason is not None:
            found.append(ReplicationTask(fragment, last_entry, n, reason, write_quorum))
    return found or _misplaced(fragment, last_entry, fates, view, write_quorum)


def _reason(fragment: Fragment, position: int, fate: Fate) -> Reason | None:
    if fate is Fate.LOST:
        return Reason.LOST
    if fate is Fate.DRAINING:
        return Reason.DRAINING
    is_whole = fragment.lacking_at(position) is None
    return None if is_whole or fate is Fate.AWAY else Reason.LACKING


def _is_urgent(fragment: Fragment, fates: list[Fate], write_quorum: int) -> bool:
    """Returns whether any write set lacks two or more copies, so that it is too dangerous to wait longer."""
    size = len(fates)
    gone = [f in (Fate.AWAY, Fate.LOST) or fragment.lacking_at(n) is not None for n, f in enumerate(fates)]
    worst = max(sum(gone[(first + step) % size] for step in range(write_quorum)) for first in range(size))
    return worst >= 2


def _misplaced(
    fragment: Fragment, last_entry: int, fates: list[Fate], view: ClusterView, write_quorum: int
) -> list[ReplicationTask]:
    """Returns at most one task: to move a copy of a fully replicated fragment to a bookie in a better fault domain."""
    if any(fate is not Fate.LIVING for fate in fates) or not _share_a_domain(fragment, view):
        return []
    for n, bookie in enumerate(fragment.ensemble):
        task = ReplicationTask(fragment, last_entry, n, Reason.MISPLACED, write_quorum)
        here = placement.rank(view.living[bookie], _beside(task, view))
        if here[0] and any(
            placement.rank(one, _beside(task, view))[0] < here[0] for one in _candidates(task, view)
        ):
            return [task]
    return []


def _share_a_domain(fragment: Fragment, view: ClusterView) -> bool:
    domains = [view.living[bookie].fault_domain for bookie in fragment.ensemble]
    named = [domain for domain in domains if domain]
    return len(set(named)) < len(named)


# --- who may take it --------------------------------------------------------------------------


def takers(task: ReplicationTask, view: ClusterView, *, second_best: bool = False) -> list[Registration]:
    """Returns the bookies that may take over the copy: of all candidates, those with the best placement relative to the
    other copies.

    With `second_best`, returns all candidates, unless the task only moves the copy to a better place.
    """
    candidates = _candidates(task, view)
    if second_best and task.reason is not Reason.MISPLACED:
        return candidates
    return placement.best(candidates, _beside(task, view))


def _candidates(task: ReplicationTask, view: ClusterView) -> list[Registration]:
    return [one for one in view.takers() if task.fragment.admits(one.bookie, in_place_of=task.bookie)]


def _beside(task: ReplicationTask, view: ClusterView) -> list[Registration]:
    return [view.living[bookie] for bookie in task.beside if bookie in view.living]


# --- ledgers with an accepted loss ---------------------------------------------------------------


def to_fence(record: LedgerRecord, view: ClusterView) -> list[BookieRef]:
    """Returns the bookies that did not answer when the loss of their entries was accepted, and may still return. If
    they do, they must fence the ledger; otherwise they could confirm entries for the ledger's old writer."""
    loss = record.accepted_loss
    return [
        one
        for one in (() if loss is None else loss.to_fence)
        if view.formatted.get(one.bookie_id) == one.incarnation
    ]


# --- abandoned ledgers -------------------------------------------------------------------------


def is_left_behind(record: LedgerRecord, view: ClusterView) -> bool:
    """Returns whether the ledger is not closed, and seems to have no writer or recoverer that would close it.

    If the ledger is in recovery, its recoverer may be gone. If it is open, a live writer would have replaced a lost
    bookie had another one been available.
    """
    if record.state is LedgerState.IN_RECOVERY:
        return True
    if record.state is not LedgerState.OPEN or record.reserved:
        return False
    last = record.fragments[-1]
    lost = [n for n, bookie in enumerate(last.ensemble) if view.fate(bookie) is Fate.LOST]
    quorum = record.shape.write_quorum
    return any(takers(ReplicationTask(last, last.first_entry, n, Reason.LOST, quorum), view) for n in lost)
