"""Offsets of streams, as stored in Spark's checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

OPEN_AHEAD_MAX = 100_000
"""Closed ledgers delivered beyond the oldest that is still open; more wait until that one is closed."""

UNREAD_MAX = 10_000
"""Most ledgers that an offset says are to come; of further ones that are deleted it is not known what they were."""

NO_REVISION = -1
"""Before every revision of a store."""

FIRST_TXID = 1

ITS_OWN_CHECKPOINT = (
    "give a stream whose options change a new, empty checkpointLocation, and none to two streams"
)


class BadOffset(ValueError):
    """The checkpoint belongs to another stream, or to this one with other options. The message says what to do."""


@dataclass(frozen=True, slots=True)
class LedgersOffset:
    """Ledgers delivered: all selected ones below `below`, and those in `done`; those in `batch` last.

    Ledgers are not closed in the order of their ids: `below` stays at the oldest that is open. `chosen` identifies the
    stream's selection, since an offset is meaningless for others.

    Every deletion up to `revision` of the store was judged: none in a stream that begins, and in checkpoints of earlier
    versions. `unread` are ledgers still to come, where only that tells later what a deleted ledger was.
    """

    below: int = 0
    done: frozenset[int] = frozenset()
    batch: tuple[int, ...] = ()
    chosen: str = ""
    revision: int = NO_REVISION
    unread: frozenset[int] = frozenset()

    def has(self, ledger_id: int) -> bool:
        return ledger_id < self.below or ledger_id in self.done

    def to_json(self) -> dict[str, Any]:
        return {
            "below": self.below,
            "done": to_ranges(self.done),
            "batch": to_ranges(self.batch),
            "chosen": self.chosen,
            "revision": self.revision,
            "unread": to_ranges(self.unread),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], chosen: str = "") -> LedgersOffset:
        """Raises BadOffset for a malformed offset, and for one of a stream of other ledgers."""
        try:
            found = cls(
                int(value["below"]),
                frozenset(from_ranges(value["done"])),
                tuple(from_ranges(value["batch"])),
                value["chosen"],
                int(value.get("revision", NO_REVISION)),
                frozenset(from_ranges(value.get("unread", ""))),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _no_offset(value, "ledgers") from error
        if found.chosen != chosen:
            raise BadOffset(
                f"the checkpoint is of a stream of {_named(found.chosen)}, and this one is of {_named(chosen)}: "
                f"{ITS_OWN_CHECKPOINT}"
            )
        return found

    def admitted(self, ledger_ids: Collection[int], waiting: Iterable[int], end: int) -> list[int]:
        """The first of these, as many as an offset has room for.

        Those `waiting` are still to come, and all from `end` on may be.
        """
        oldest = min([end, *(i for i in waiting if not self.has(i))])
        room = OPEN_AHEAD_MAX - sum(1 for i in self.done if i > oldest)
        needing_none = sum(1 for i in ledger_ids if i < oldest)
        return sorted(ledger_ids)[: min(OPEN_AHEAD_MAX, needing_none + room)]

    def after(self, delivered: Collection[int], waiting: Iterable[int], end: int) -> LedgersOffset:
        """The offset once these are delivered too; itself for none.

        `waiting` are ledgers that are still to come, and all from `end` on may be.
        """
        if not delivered:
            return self
        done = self.done | frozenset(delivered)
        left = (i for i in waiting if i >= self.below and i not in done)
        below = max(self.below, min([end, *left]))
        ahead = frozenset(i for i in done if i >= below)
        return replace(self, below=below, done=ahead, batch=tuple(sorted(delivered)))

    def judged(self, revision: int, unread: Collection[int]) -> LedgersOffset:
        """The offset once deletions up to a revision are judged, and these ledgers are still to come."""
        return replace(self, revision=revision, unread=frozenset(sorted(unread)[:UNREAD_MAX]))


@dataclass(frozen=True, slots=True)
class JournalOffset:
    """The next transaction to deliver, of which journal, and what was delivered last.

    The last batch began with `batch_txid`; its last segment was `segment_txid` … `txid - 1`, in ledger `ledger_id`
    (None: nothing was delivered), which `acceptor` finalized in `generation`. So rewritten history is
    detected.
    """

    journal: str
    acceptors: str
    txid: int = FIRST_TXID
    batch_txid: int = FIRST_TXID
    segment_txid: int = FIRST_TXID
    ledger_id: int | None = None
    acceptor: str = ""
    generation: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "journal": self.journal,
            "acceptors": self.acceptors,
            "txid": self.txid,
            "batch": self.batch_txid,
            "segment": self.segment_txid,
            "ledger": -1 if self.ledger_id is None else self.ledger_id,
            "acceptor": self.acceptor,
            "generation": self.generation,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], journal: str, acceptors: str) -> JournalOffset:
        """Raises BadOffset for a malformed offset, and for one of another journal or other acceptors."""
        try:
            ledger_id = int(value["ledger"])
            found = cls(
                value["journal"],
                value["acceptors"],
                int(value["txid"]),
                int(value["batch"]),
                int(value["segment"]),
                None if ledger_id < 0 else ledger_id,
                value["acceptor"],
                int(value["generation"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _no_offset(value, "a journal") from error
        if (found.journal, found.acceptors) != (journal, acceptors):
            raise BadOffset(
                f"the checkpoint is of journal {found.journal} at acceptors {found.acceptors}, and this stream is of "
                f"journal {journal} at acceptors {acceptors}: {ITS_OWN_CHECKPOINT}"
            )
        return found


def _no_offset(value: object, whose: str) -> BadOffset:
    return BadOffset(f"the checkpoint holds {value!r}, which is no offset of {whose}: {ITS_OWN_CHECKPOINT}")


def _named(chosen: str) -> str:
    return chosen or "all ledgers"


def to_ranges(ids: Iterable[int]) -> str:
    """`3,5-9` for 3, 5, 6, 7, 8, 9."""
    ranges: list[list[int]] = []
    for one in sorted(ids):
        if ranges and ranges[-1][1] == one - 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def from_ranges(text: str) -> list[int]:
    """The inverse. Raises ValueError, also for more than OPEN_AHEAD_MAX ids."""
    found: list[int] = []
    for piece in filter(None, text.split(",")):
        low, _, high = piece.partition("-")
        span = range(int(low), int(high or low) + 1)
        if len(found) + len(span) > OPEN_AHEAD_MAX:
            raise ValueError("too many ids")
        found.extend(span)
    return found
