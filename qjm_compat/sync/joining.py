"""Adds a new acceptor to those that hold a journal: the conditions, and the state that it is given. Does no I/O.

The new acceptor replaces a lost one (its predecessor), and does not know what the predecessor promised, accepted or
acknowledged. In Paxos it would be a voter that forgot its votes, so it must not count in any majority as if it
remembered them. The argument, for n acceptors with majorities of m:

- At least n-m+1 acceptors hold the journal (`_check_enough`), so that every majority, past or future, contains one of
  these *holders*. The predecessor is stopped before the holders are called, so it no longer votes.
- Promises. Each holder first stops promising epochs up to `epochs_above`. This bound is above every epoch that any
  holder has seen, and leaves room for EPOCHS_AHEAD proposals that only the predecessor received. From then on, no
  majority can give one of these epochs to any writer, so nothing depends on the predecessor's promises. A writer that
  got such an epoch from a majority got it from a holder too. The new acceptor is given the latest epoch that any holder
  promised: like the predecessor, it refuses earlier writers and lets the current one continue.
- Edits. If a majority acknowledged an edit with the predecessor's vote, a holder has the edit as well, in a segment in
  progress or finalized. At least n-m+1 holders must have each finalized segment (`_check_finalized`), so that every
  majority finds it without the new acceptor. For the segment in progress and all earlier ones, the new acceptor reports
  that it does not know their contents (`JournalState.joined_behind`): it fails a prepareRecovery of these segments
  instead of answering that it has no edits. So only a majority of the other acceptors can recover them. newEpoch
  reports the segment in progress as the latest, so that no writer starts at or before it without recovering it.
- The new acceptor votes on a segment once it has the segment: as a recovery's choice, as a finalized copy (both are a
  majority's decision), or by starting it itself, after a recovery by a majority of acceptors that know the segment
  found no edits there. A later segment does not lift this restriction, because the majority that finalized the earlier
  one may consist of the predecessor and one holder that received the request only after the new acceptor had joined.
- Acceptors join one after the other: an acceptor that does not know the segment in progress yet does not count as one
  that does (`_check_segment_in_progress`). If too few acceptors that know it would remain, nothing is done, and the
  message asks the operator to sync first.

No check here can detect a predecessor that was only cut off and still serves writers that use its old location. The
runbook in docs/journals.md requires that the predecessor is stopped first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledgers.protocol.quorum import majority
from metadata.records.journal_record import JournalStorage

from ..acceptor.programs.sync_programs import SegmentsHeld
from ..errors import BadJournalState
from ..requests import Format, NamespaceInfo
from .plan import finalized_groups, span

EPOCHS_AHEAD = 1000
"""Maximum number of consecutive proposals that are assumed to have reached only the lost acceptor."""

Held = Mapping[str, SegmentsHeld]


def format_to_join(journal_id: str, held: Held, joining: Sequence[str], given: NamespaceInfo) -> Format:
    """Returns the request that formats new acceptors so that they join those that hold the journal.

    `held` contains the responses that the holders gave to `make_room_for_another`. Raises BadJournalState if a majority
    that includes the new acceptors could be missing data; in that case, nothing may be changed.
    """
    storage = _agreed(journal_id, held, given)
    _check_enough(journal_id, held, joining)
    _check_no_rollback(held, joining)
    _check_finalized(held, joining)
    _check_segment_in_progress(held, joining)
    return Format(
        NamespaceInfo.of(storage),
        promised_epoch=max(one.last_promised_epoch for one in held.values()),
        joined_behind=max(one.in_progress_from for one in held.values()),
    )


def epochs_above(held: Held) -> int:
    """Returns an epoch above all those that the holders have promised or that a lost acceptor may have promised."""
    return EPOCHS_AHEAD + max(one.latest_epoch for one in held.values())


def _agreed(journal_id: str, held: Held, given: NamespaceInfo) -> JournalStorage:
    different = {one.storage for one in held.values()}
    if len(different) > 1:
        storages = "; ".join(f"{name}: {one.storage}" for name, one in held.items())
        raise BadJournalState(f"nothing was done: the acceptors are of different namespaces: {storages}")
    storage = different.pop()
    if (storage.namespace_id, storage.cluster_id) != (given.namespace_id, given.cluster_id):
        raise BadJournalState(
            f"nothing was done: {_who(held)} journal {journal_id} of namespace {storage.namespace_id} and cluster "
            f"{storage.cluster_id}, not of {given.namespace_id} and {given.cluster_id}"
        )
    return storage


def _check_enough(journal_id: str, held: Held, joining: Sequence[str]) -> None:
    """Checks that the remaining acceptors include a member of every majority that ever existed."""
    if len(held) >= needed_of(len(held) + len(joining)):
        return
    reason = (
        f"nothing was done: {_who(held)} journal {journal_id}, and {', '.join(joining)} would be added: edits that a "
        f"majority acknowledged may be lost, and the new acceptors would not notice. "
    )
    if all(one.is_new for one in held.values()):
        raise BadJournalState(f"{reason}If this journal was never written to, --force formats it everywhere")
    raise BadJournalState(
        f"{reason}Export the remaining edits with `bookledger journal export`, passing --acceptor only for those "
        "that hold the journal, and import them into a new journal"
    )


def _check_no_rollback(held: Held, joining: Sequence[str]) -> None:
    keeping = [name for name, one in held.items() if one.keeps_rollback]
    if keeping:
        raise BadJournalState(
            f"nothing was done: acceptor {', '.join(keeping)} can still roll back an upgrade, but "
            f"{', '.join(joining)} could not: finalize the upgrade or roll it back first"
        )


def _check_finalized(held: Held, joining: Sequence[str]) -> None:
    """Checks that every possible majority includes an acceptor that has each finalized segment."""
    groups, violations = finalized_groups(held)
    if violations:
        raise BadJournalState(
            f"nothing was done: {violations[0]}; `bookledger journal fsck` checks all copies"
        )
    for group in groups:
        if len(group.copies) < needed_of(len(held) + len(joining)):
            lacking = ", ".join(name for name in held if name not in group.copies)
            raise BadJournalState(
                f"nothing was done: acceptor {lacking} lacks segment {span(group.log)}, and with "
                f"{', '.join(joining)} added, a majority might lack it: run `bookledger journal sync` first, with "
                f"--acceptor for {', '.join(held)}"
            )


def _check_segment_in_progress(held: Held, joining: Sequence[str]) -> None:
    """Checks that a majority can recover a segment in progress. This requires acceptors that know what was written to
    that segment."""
    behind = [name for name, one in held.items() if one.behind]
    acceptors = tuple(range(len(held) + len(joining)))
    if behind and len(held) - len(behind) < majority(acceptors).needed:
        raise BadJournalState(
            f"nothing was done: acceptor {', '.join(behind)} itself joined the journal while segment "
            f"{max(held[name].behind for name in behind)} was in progress, and lacks it: no majority would know which "
            f"edits the segment has. Have the writer end the segment, run `bookledger journal sync`, and then add "
            f"{', '.join(joining)}"
        )


def needed_of(acceptors: int) -> int:
    """Returns the smallest number of acceptors that is certain to include a member of every majority."""
    return acceptors - majority(tuple(range(acceptors))).needed + 1


def _who(held: Held) -> str:
    names = ", ".join(held)
    return f"acceptor {names} holds" if len(held) == 1 else f"acceptors {names} hold"
