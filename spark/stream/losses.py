"""Tells which ledgers were deleted before a stream had read them. Pure.

A tombstone says when a ledger was deleted, as a revision of the store, and not what custom metadata the ledger had.
So where custom metadata is asked for, a deleted ledger is known to have been selected only if the stream has seen it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .offsets import NO_REVISION, LedgersOffset, to_ranges

TOLD_CHARS_MAX = 400
"""Of the ids in a message; how many there are is always told."""

GO_ON = (
    "start the stream once with the option failOnDataLoss=false and the same checkpointLocation: it leaves out what is "
    "gone, and says what that was"
)


@dataclass(frozen=True, slots=True)
class Losses:
    """Deleted ledgers that a stream has not read: selected ones, and those that may have been."""

    lost: tuple[int, ...] = ()
    uncertain: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a process knows from its last look: up to which revision, and the ledgers there were then."""

    revision: int = NO_REVISION
    selected: frozenset[int] = frozenset()
    others: frozenset[int] = frozenset()


def losses(
    deleted: Collection[tuple[int, int]],
    offset: LedgersOffset,
    seen: Seen,
    *,
    named: Collection[int],
    began_at: int,
    by_custom: bool,
) -> Losses:
    """Judges ids that the selection names, each with the revision of its deletion.

    A stream without a look so far began at revision `began_at`: what was deleted earlier it never had to read. The
    `named` must exist, however early they were deleted.
    """
    judged, selected = max(offset.revision, seen.revision), seen.selected | offset.unread
    lost, uncertain = [], []
    for ledger_id, revision in deleted:
        since = judged if ledger_id in named or judged > NO_REVISION else began_at
        if revision <= since or offset.has(ledger_id):
            continue
        if not by_custom or ledger_id in named or ledger_id in selected:
            lost.append(ledger_id)
        elif ledger_id not in seen.others:
            uncertain.append(ledger_id)
    return Losses(tuple(lost), tuple(uncertain))


def lost_told(ledger_ids: Collection[int]) -> str:
    return f"{_called(ledger_ids)} deleted before the stream had read {_them(ledger_ids)}"


def uncertain_told(ledger_ids: Collection[int]) -> str:
    return (
        f"{_called(ledger_ids)} deleted, and nothing tells any more whether the stream should have read "
        f"{_them(ledger_ids)}: custom metadata is gone with a ledger"
    )


def retired_told(ledger_ids: Collection[int]) -> str:
    ids, them = _ids(ledger_ids), _them(ledger_ids)
    return (
        f"{'id' if len(ledger_ids) == 1 else 'ids'} {ids}: nothing tells any more whether there were ledgers that were "
        f"deleted before the stream had read {them}; start it again sooner (`tombstone_seconds` of the bookies)"
    )


def went_back_told(revision: int, seen_revision: int) -> str:
    return (
        f"the metadata is at revision {revision}, and this stream has seen it at {seen_revision}: it went back to an "
        "older copy, and nothing tells whether ledgers were deleted before the stream had read them"
    )


def _called(ledger_ids: Collection[int]) -> str:
    return f"ledger {_ids(ledger_ids)} was" if len(ledger_ids) == 1 else f"ledgers {_ids(ledger_ids)} were"


def _them(ledger_ids: Collection[int]) -> str:
    return "it" if len(ledger_ids) == 1 else "them"


def _ids(ledger_ids: Collection[int]) -> str:
    text = to_ranges(ledger_ids)
    if len(text) <= TOLD_CHARS_MAX:
        return text
    return f"{text[:TOLD_CHARS_MAX].rpartition(',')[0]},… ({len(ledger_ids)} in all)"
