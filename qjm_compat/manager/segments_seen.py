"""Merges the acceptors' manifests into the segments that a reader may read. Does no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from ledgers.protocol.quorum import Quorum

from ..errors import EditsMissing, RuleViolated
from ..requests import GetEditLogManifest, JournaledEdits, Manifest, RemoteEditLog
from .proposer_effects import Acceptors, Need, Program

LOOKS_MAX = 3
"""Maximum number of times that manifests are requested: they are requested again while those of a majority have a gap
between segments."""


class TxidRange(Protocol):
    """Consecutive transactions: those of a segment, or of the part of it that is read."""

    @property
    def first_txid(self) -> int: ...
    @property
    def last_txid(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """One acceptor's copy of a segment."""

    acceptor: int
    log: RemoteEditLog


@dataclass(frozen=True, slots=True)
class SegmentSeen:
    """A segment that can be read up to `last_txid`, and its copies, longest first."""

    first_txid: int
    last_txid: int
    in_progress: bool
    copies: tuple[SegmentCopy, ...]


def readable_segments(
    acceptors: Acceptors, request: GetEditLogManifest, seconds_max: float, *, only_durable: bool
) -> Program[list[SegmentSeen]]:
    """Returns the segments that a majority lists, merged. Any gap that remains between them is permanent;
    `check_no_gap` raises EditsMissing for it.

    A segment is finalized at a majority before the next one begins, so any majority whose acceptors answer at the same
    time lists it. If this process was suspended, however, some answers may be older than others. Therefore, if there is
    a gap, every acceptor is called again.
    """
    seen: list[SegmentSeen] = []
    for look in range(LOOKS_MAX):
        manifests = yield from acceptors.ask(
            "getEditLogManifest", request, Need.MAJORITY, seconds_max, every_answer=look > 0
        )
        purged_below = max(manifest.purged_below for manifest in manifests.values())
        seen = _without_remnants(
            segments_seen(manifests, acceptors.majority, only_durable=only_durable), purged_below
        )
        if not any(_gaps(seen)):
            break
    return seen


def _gaps(seen: Iterable[TxidRange]) -> Iterator[tuple[TxidRange, TxidRange]]:
    """Yields pairs of adjacent ranges between which transactions are missing."""
    return ((one, other) for one, other in pairwise(seen) if other.first_txid > one.last_txid + 1)


def _without_remnants(seen: list[SegmentSeen], purged_below: int) -> list[SegmentSeen]:
    """Omits the segments before a gap that a purge caused. Such gaps occur because some acceptors have purged more than
    others."""
    starts = [other.first_txid for _, other in _gaps(seen) if other.first_txid <= purged_below]
    return [segment for segment in seen if segment.first_txid >= max(starts, default=0)]


def check_no_gap(seen: Iterable[TxidRange]) -> None:
    """Raises EditsMissing if transactions are missing between segments."""
    for one, other in _gaps(seen):
        raise EditsMissing(
            f"txids {one.last_txid + 1} to {other.first_txid - 1} are missing: no acceptor that answered "
            f"has them, but later ones exist; restore the other acceptors, or read from txid {other.first_txid} on"
        )


def segments_seen(
    manifests: Mapping[int, Manifest], quorum: Quorum, *, only_durable: bool
) -> list[SegmentSeen]:
    """Returns all segments in order, each only once. With `only_durable`, a segment in progress ends with the last edit
    that is durable on a quorum.

    Raises RuleViolated if two finalized copies differ in length.
    """
    groups: dict[int, list[SegmentCopy]] = defaultdict(list)
    for number, manifest in sorted(manifests.items()):
        for log in manifest.logs:
            groups[log.start_txid].append(SegmentCopy(number, log))
    seen: list[SegmentSeen] = []
    end = 0
    for start in sorted(groups):
        segment = _of_group(start, groups[start], quorum, only_durable=only_durable)
        if segment is not None and not (segment.in_progress and start <= end):
            seen.append(segment)  # copies in progress inside a finalized segment are superseded
            end = max(end, segment.last_txid)
    return seen


def _of_group(
    start: int, copies: list[SegmentCopy], quorum: Quorum, *, only_durable: bool
) -> SegmentSeen | None:
    final = [copy for copy in copies if not copy.log.in_progress]
    if final:
        ends = {copy.log.end_txid for copy in final}
        if len(ends) != 1:
            raise RuleViolated(f"segment {start} is finalized with different ends: {sorted(ends)}")
        return SegmentSeen(start, ends.pop(), False, tuple(final))
    return _in_progress(start, copies, quorum, only_durable=only_durable)


def _in_progress(
    start: int, copies: list[SegmentCopy], quorum: Quorum, *, only_durable: bool
) -> SegmentSeen | None:
    """Merges the copies of a segment in progress. Counts copies toward the same quorum only if one writer wrote them,
    because another writer may have written other edits under the same txids.

    Even copies from one writer are counted in separate groups: one group for the copies that no recovery has accepted,
    and one for each recovery, with the copies that it accepted. Until one of these groups has its own quorum, a later
    recovery may still choose a shorter end.
    """
    votes: dict[tuple[int, int], list[SegmentCopy]] = defaultdict(list)
    for copy in copies:
        votes[copy.log.writer_epoch, copy.log.accepted_in_epoch].append(copy)
    epoch = max(writer for writer, _ in votes)
    last = max(copy.log.end_txid for copy in copies if copy.log.writer_epoch == epoch)
    if only_durable:
        last, epoch = max((_durable(group, quorum), writer) for (writer, _), group in votes.items())
    if last < start:
        return None
    ours = [copy for copy in copies if copy.log.writer_epoch == epoch]
    longest_first = sorted(ours, key=lambda copy: -copy.log.end_txid)
    return SegmentSeen(start, last, True, tuple(longest_first))


def _durable(copies: Sequence[SegmentCopy], quorum: Quorum) -> int:
    """Returns the last txid that a quorum has in these copies, or that their writer reported as committed."""
    marks = {copy.acceptor: copy.log.end_txid for copy in copies}
    committed = max(copy.log.committed_txid or 0 for copy in copies)
    durable = max(committed, quorum.mark({voter: marks.get(voter, 0) for voter in quorum.voters}))
    return min(durable, max(marks.values()))


def durable_edits(replies: Mapping[int, JournaledEdits], quorum: Quorum) -> tuple[JournaledEdits, int] | None:
    """Returns the edits for a follower and how many of them are durable, or None if no quorum has the next edit."""
    final = [reply for reply in replies.values() if reply.is_final]
    if final:
        longest = max(final, key=lambda reply: reply.txn_count)
        return (longest, longest.txn_count) if longest.txn_count else None
    votes: dict[tuple[int, int], dict[int, JournaledEdits]] = defaultdict(dict)
    for number, reply in replies.items():
        if reply.txn_count:
            votes[reply.writer_epoch, reply.accepted_in_epoch][number] = reply
    best: tuple[JournaledEdits, int] | None = None
    for ours in votes.values():
        durable = quorum.mark(
            {voter: ours[voter].txn_count if voter in ours else 0 for voter in quorum.voters}
        )
        if durable > (best[1] if best is not None else 0):
            best = max(ours.values(), key=lambda reply: reply.txn_count), durable
    return best
