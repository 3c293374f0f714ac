"""Chooses the acceptor whose copy of a segment a recovery uses (§2.9 of the QJM design)."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import BadRequest, RuleViolated
from ..requests import PrepareReply


def best_source(replies: Mapping[int, PrepareReply]) -> int:
    """The number of the acceptor to recover from; the first among equals.

    Raises RuleViolated if two finalized copies differ, or if the best copy lacks committed edits.
    """
    best, *others = sorted(replies)
    for number in others:
        if compare(replies[number], replies[best]) > 0:
            best = number
    _check_holds_commits(replies, best)
    return best


def compare(one: PrepareReply, other: PrepareReply) -> int:
    """Positive if `one` is the better source, zero if they are equally good."""
    a, b = one.segment, other.segment
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if a.start_txid != b.start_txid:
        raise BadRequest(f"segments {a} and {b} do not begin at the same txid")
    if a.in_progress != b.in_progress:
        return b.in_progress - a.in_progress
    if not a.in_progress:
        if a.end_txid != b.end_txid:
            raise RuleViolated(f"finalized segs with different lengths: {a} and {b}")
        return 0
    mine, theirs = (max_seen_epoch(one), a.end_txid), (max_seen_epoch(other), b.end_txid)
    return (mine > theirs) - (mine < theirs)


def max_seen_epoch(reply: PrepareReply) -> int:
    """The latest epoch that an acceptor has seen for the segment, from its writer or from a recovery."""
    return max(reply.accepted_in_epoch or 0, reply.last_writer_epoch)


def _check_holds_commits(replies: Mapping[int, PrepareReply], best: int) -> None:
    segment = replies[best].segment
    if segment is None:
        return
    for reply in replies.values():
        committed = reply.last_committed_txid
        if committed is not None and committed > segment.end_txid:
            raise RuleViolated(
                f"the best copy of segment {segment.start_txid} ends at txid {segment.end_txid}, "
                f"but txid {committed} was committed"
            )
