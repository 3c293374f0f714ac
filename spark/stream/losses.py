"""Finds the ledgers that were deleted before a stream had read them. Pure.

A tombstone records when a ledger was deleted, as a revision of the store, but not the ledger's custom metadata. So if
the options select by custom metadata, a deleted ledger is known to be selected only if the stream has seen it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .offsets import NO_REVISION, LedgersOffset, to_ranges

IDS_CHARS_MAX = 400
"""Maximum length of the list of ids in a message, in characters; a longer list is cut off and followed by the total."""

GO_ON = (
    "start the stream once with the option failOnDataLoss=false and the same checkpointLocation: it skips the lost "
    "data, and logs what was lost"
)


@dataclass(frozen=True, slots=True)
class Losses:
    """Deleted ledgers that a stream has not read: those that were selected, and those that may have been."""

    lost: tuple[int, ...] = ()
    uncertain: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """Result of a process's last look at the metadata: the revision up to which this result is complete, and the
    ledgers that existed then."""

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
    """Classifies deleted ids that are in the selection, each given with the revision of its deletion.

    A stream that has not looked before began at revision `began_at`, and did not have to read ledgers that had been
    deleted by then. The exceptions are the `named` ledgers, which it had to read no matter how early they were deleted.
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


def describe_lost(ledger_ids: Collection[int]) -> str:
    return f"{_called(ledger_ids)} deleted before the stream had read {_them(ledger_ids)}"


def describe_uncertain(ledger_ids: Collection[int]) -> str:
    return (
        f"{_called(ledger_ids)} deleted, and it is unknown whether the stream should have read "
        f"{_them(ledger_ids)}: a ledger's custom metadata is deleted with it"
    )


def describe_retired(ledger_ids: Collection[int]) -> str:
    ids, them = _ids(ledger_ids), _them(ledger_ids)
    return (
        f"{'id' if len(ledger_ids) == 1 else 'ids'} {ids}: it is unknown whether there were ledgers that were "
        f"deleted before the stream had read {them}; next time, restart the stream sooner (see `tombstone_seconds` of "
        "the bookies)"
    )


def describe_rollback(revision: int, seen_revision: int) -> str:
    return (
        f"the metadata is at revision {revision}, but this stream has seen revision {seen_revision}: it was rolled "
        "back to an older copy, and it is unknown whether ledgers were deleted before the stream had read them"
    )


def _called(ledger_ids: Collection[int]) -> str:
    return f"ledger {_ids(ledger_ids)} was" if len(ledger_ids) == 1 else f"ledgers {_ids(ledger_ids)} were"


def _them(ledger_ids: Collection[int]) -> str:
    return "it" if len(ledger_ids) == 1 else "them"


def _ids(ledger_ids: Collection[int]) -> str:
    text = to_ranges(ledger_ids)
    if len(text) <= IDS_CHARS_MAX:
        return text
    return f"{text[:IDS_CHARS_MAX].rpartition(',')[0]},… ({len(ledger_ids)} in all)"
