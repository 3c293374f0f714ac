"""Offsets of streams, as stored in Spark's checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

OPEN_AHEAD_MAX = 100_000
"""Maximum number of closed ledgers delivered beyond the oldest open one; any others wait until that one is closed."""

UNREAD_MAX = 10_000
"""Maximum number of unread ledgers that an offset lists. If any others are deleted, it is unknown whether they were
selected."""

NO_REVISION = -1
"""A revision lower than any revision of a store."""

FIRST_TXID = 1

ITS_OWN_CHECKPOINT = (
    "if a stream's options change, give it a new, empty checkpointLocation; never share one between streams"
)


class BadOffset(ValueError):
    """The checkpoint belongs to another stream, or to this stream with other options. The message states the remedy."""


@dataclass(frozen=True, slots=True)
class LedgersOffset:
    """The delivered ledgers: all selected ones below `below`, and those in `done`. Those in `batch` were delivered
    last.

    Ledgers are not closed in the order of their ids, so `below` stays at the oldest open one. `chosen` identifies the
    stream's selection, because an offset is meaningless for a different selection.

    `revision`: the store revision up to which the stream has checked all deletions for losses; NO_REVISION in a new
    stream, and in checkpoints of earlier versions. `unread` lists the ledgers still to be delivered, if there is no
    other way to determine later whether a deleted ledger was selected.
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
        """Decodes an offset. Raises BadOffset if it is malformed, or belongs to a stream of other ledgers."""
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
                f"the checkpoint belongs to a stream of {_named(found.chosen)}, but this is a stream of "
                f"{_named(chosen)}: {ITS_OWN_CHECKPOINT}"
            )
        return found

    def admitted(self, ledger_ids: Collection[int], waiting: Iterable[int], end: int) -> list[int]:
        """Returns as many of these ledgers, in order, as an offset has room for.

        The `waiting` ledgers are still to be delivered; ledgers with ids from `end` on may also have to be delivered.
        """
        oldest = min([end, *(i for i in waiting if not self.has(i))])
        room = OPEN_AHEAD_MAX - sum(1 for i in self.done if i > oldest)
        needing_none = sum(1 for i in ledger_ids if i < oldest)
        return sorted(ledger_ids)[: min(OPEN_AHEAD_MAX, needing_none + room)]

    def after(self, delivered: Collection[int], waiting: Iterable[int], end: int) -> LedgersOffset:
        """Returns the offset after these ledgers have also been delivered, or the same offset if there are none.

        The `waiting` ledgers are still to be delivered; ledgers with ids from `end` on may also have to be delivered.
        """
        if not delivered:
            return self
        done = self.done | frozenset(delivered)
        left = (i for i in waiting if i >= self.below and i not in done)
        below = max(self.below, min([end, *left]))
        ahead = frozenset(i for i in done if i >= below)
        return replace(self, below=below, done=ahead, batch=tuple(sorted(delivered)))

    def judged(self, revision: int, unread: Collection[int]) -> LedgersOffset:
        """Returns the offset after the deletions up to a revision were checked for losses. The `unread` ledgers are
        still to be delivered."""
        return replace(self, revision=revision, unread=frozenset(sorted(unread)[:UNREAD_MAX]))


@dataclass(frozen=True, slots=True)
class JournalOffset:
    """The next transaction to deliver, its journal, and the last segment delivered.

    The last batch began with `batch_txid`. Its last segment contained `segment_txid` … `txid - 1`, in ledger
    `ledger_id` (None: nothing was delivered), and was finalized by `acceptor` in `generation`. These fields reveal
    rewritten history.
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
        """Decodes an offset. Raises BadOffset if it is malformed, or belongs to another journal or other acceptors."""
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
                f"the checkpoint belongs to journal {found.journal} at acceptors {found.acceptors}, but this is a "
                f"stream of journal {journal} at acceptors {acceptors}: {ITS_OWN_CHECKPOINT}"
            )
        return found


def _no_offset(value: object, whose: str) -> BadOffset:
    return BadOffset(
        f"the checkpoint contains {value!r}, which is not an offset of {whose}: {ITS_OWN_CHECKPOINT}"
    )


def _named(chosen: str) -> str:
    return chosen or "all ledgers"


def to_ranges(ids: Iterable[int]) -> str:
    """Formats ids as ranges: `3,5-9` for 3, 5, 6, 7, 8, 9."""
    ranges: list[list[int]] = []
    for one in sorted(ids):
        if ranges and ranges[-1][1] == one - 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def from_ranges(text: str) -> list[int]:
    """Parses text written by `to_ranges`. Raises ValueError, also for more than OPEN_AHEAD_MAX ids."""
    found: list[int] = []
    for piece in filter(None, text.split(",")):
        low, _, high = piece.partition("-")
        span = range(int(low), int(high or low) + 1)
        if len(found) + len(span) > OPEN_AHEAD_MAX:
            raise ValueError("too many ids")
        found.extend(span)
    return found
