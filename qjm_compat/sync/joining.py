"""An acceptor that is new joins the others that hold a journal: what must hold, and what it is told. Pure.

It stands in for one that is lost (its predecessor), and knows nothing of what that one promised, accepted or
acknowledged. In Paxos it would be a voter that forgot its votes. It must not count in any majority as if it
remembered them. The argument, for n acceptors with majorities of m:

- At least n-m+1 acceptors hold the journal (`_check_enough`), so that every majority, past or future, contains one of
  these *holders*. The predecessor is gone before the holders are asked: it votes no more.
- Promises. Each holder first stops promising epochs up to `epochs_above`, which is above all that it has seen and
  leaves room for EPOCHS_AHEAD proposals that only the predecessor heard. From then on no majority can give one of
  these epochs to anybody, so nothing depends on what the predecessor promised. A writer that has such an epoch from a
  majority had it from a holder: the new one is told the latest that any holder promised, refuses earlier writers like
  the predecessor, and lets the present one go on.
- Edits. Whatever a majority acknowledged with the predecessor's vote, a holder has as well, in progress or finalized.
  What holders have finalized must be at n-m+1 of them (`_check_finalized`), so that every majority finds it without
  the new one. Of what is in progress, and of all before it, the new one says that it cannot tell
  (`JournalState.joined_behind`): it fails a prepareRecovery of these segments instead of answering "nothing here". So
  only a majority among the others recovers them. newEpoch names that segment as the latest, so that no writer starts
  at it, or before it, unasked.
- It votes on a segment once it has it: as a recovery's choice, as a finalized copy (both are what a majority decided),
  or by starting it itself, after a recovery by a majority that could tell found nothing there. A later segment does not
  lift this. The majority that finalized the earlier one may consist of the predecessor and one holder that heard of it
  only after the new one had joined.
- One after the other: an acceptor that cannot tell yet does not count as one that knows (`_check_can_tell`). If too few
  would be left that know, nothing is done, and the message says to sync first.

What no check here can see: a predecessor that was only cut off, and still serves writers that name it at its old
place. The runbook in docs/journals.md says to end it first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledgers.protocol.quorum import majority
from metadata.records.journal_record import JournalStorage

from ..acceptor.programs.syncing import SegmentsHeld
from ..errors import BadJournalState
from ..requests import Format, NamespaceInfo
from .plan import finalized_groups, span

EPOCHS_AHEAD = 1000
"""How many proposals in a row may have reached nobody but the acceptor that is lost."""

Held = Mapping[str, SegmentsHeld]


def format_to_join(journal_id: str, held: Held, joining: Sequence[str], given: NamespaceInfo) -> Format:
    """The request that formats acceptors that are new, so that they take part beside those that hold the journal.

    `held` is what the holders told when they made room for another. Raises BadJournalState if a majority with the new
    ones could lack something: then nothing may be changed.
    """
    storage = _agreed(journal_id, held, given)
    _check_enough(journal_id, held, joining)
    _check_no_rollback(held, joining)
    _check_finalized(held, joining)
    _check_can_tell(held, joining)
    return Format(
        NamespaceInfo.of(storage),
        promised_epoch=max(one.last_promised_epoch for one in held.values()),
        joined_behind=max(one.in_progress_from for one in held.values()),
    )


def epochs_above(held: Held) -> int:
    """An epoch above all that the holders have promised, and above what one that is lost may have."""
    return EPOCHS_AHEAD + max(one.latest_epoch for one in held.values())


def _agreed(journal_id: str, held: Held, given: NamespaceInfo) -> JournalStorage:
    different = {one.storage for one in held.values()}
    if len(different) > 1:
        told = "; ".join(f"{name}: {one.storage}" for name, one in held.items())
        raise BadJournalState(f"nothing was done: the acceptors are of different namespaces: {told}")
    storage = different.pop()
    if (storage.namespace_id, storage.cluster_id) != (given.namespace_id, given.cluster_id):
        raise BadJournalState(
            f"nothing was done: {_who(held)} journal {journal_id} of namespace {storage.namespace_id} and cluster "
            f"{storage.cluster_id}, not of {given.namespace_id} and {given.cluster_id}"
        )
    return storage


def _check_enough(journal_id: str, held: Held, joining: Sequence[str]) -> None:
    """Every majority that there ever was must have a member among those that are left."""
    if len(held) >= needed_of(len(held) + len(joining)):
        return
    told = (
        f"nothing was done: {_who(held)} journal {journal_id}, and none of {', '.join(joining)}: what a majority "
        f"acknowledged may be lost, and they would not know it. "
    )
    if all(one.is_new for one in held.values()):
        raise BadJournalState(
            f"{told}If nobody has ever written to this journal, --force formats it everywhere"
        )
    raise BadJournalState(
        f"{told}`bookledger journal export` takes out what is left, with --acceptor for those alone that have it; "
        f"import that into a new journal"
    )


def _check_no_rollback(held: Held, joining: Sequence[str]) -> None:
    keeping = [name for name, one in held.items() if one.keeps_rollback]
    if keeping:
        raise BadJournalState(
            f"nothing was done: acceptor {', '.join(keeping)} can still roll an upgrade back, and "
            f"{', '.join(joining)} could not: finalize the upgrade or roll it back first"
        )


def _check_finalized(held: Held, joining: Sequence[str]) -> None:
    """Whatever is finalized must be found by every majority that there can be."""
    groups, violations = finalized_groups(held)
    if violations:
        raise BadJournalState(
            f"nothing was done: {violations[0]}; `bookledger journal fsck` looks at all copies"
        )
    for group in groups:
        if len(group.copies) < needed_of(len(held) + len(joining)):
            lacking = ", ".join(name for name in held if name not in group.copies)
            raise BadJournalState(
                f"nothing was done: acceptor {lacking} lacks segment {span(group.log)}, and with "
                f"{', '.join(joining)} a majority would: run `bookledger journal sync` first, with --acceptor for "
                f"{', '.join(held)}"
            )


def _check_can_tell(held: Held, joining: Sequence[str]) -> None:
    """A recovery of what is in progress needs a majority of acceptors that know what was written of it."""
    behind = [name for name, one in held.items() if one.behind]
    acceptors = tuple(range(len(held) + len(joining)))
    if behind and len(held) - len(behind) < majority(acceptors).needed:
        raise BadJournalState(
            f"nothing was done: acceptor {', '.join(behind)} joined the journal itself while segment "
            f"{max(held[name].behind for name in behind)} was in progress, and lacks it: no majority could tell what "
            f"was written of it. Have the writer end it, and run `bookledger journal sync`; then add "
            f"{', '.join(joining)}"
        )


def needed_of(acceptors: int) -> int:
    """How many of all acceptors have one in common with every majority."""
    return acceptors - majority(tuple(range(acceptors))).needed + 1


def _who(held: Held) -> str:
    names = ", ".join(held)
    return f"acceptor {names} holds" if len(held) == 1 else f"acceptors {names} hold"
