"""How far a stream has come, as Spark's checkpoint keeps it: pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

OPEN_AHEAD_MAX = 100_000
"""Closed ledgers delivered beyond the oldest that is still open; more wait until that one is closed."""

GAP_SECONDS = 600
"""How long an id that nobody has used is waited for. Whoever takes an id makes its ledger at once, but not before
others may have taken, and closed, the next ones; one that crashed in between never does."""


class BadOffset(ValueError):
    """The checkpoint holds what this source never wrote: it belongs to another stream."""


@dataclass(frozen=True, slots=True)
class LedgersOffset:
    """Ledgers delivered: all chosen ones below `below`, and those in `done`; those in `batch` last.

    Ledgers are not closed in the order of their ids: `below` stays at the oldest that is open.
    """

    below: int = 0
    done: frozenset[int] = frozenset()
    batch: tuple[int, ...] = ()

    def has(self, ledger_id: int) -> bool:
        return ledger_id < self.below or ledger_id in self.done

    def to_json(self) -> dict[str, Any]:
        return {"below": self.below, "done": to_ranges(self.done), "batch": to_ranges(self.batch)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LedgersOffset:
        try:
            return cls(
                int(value["below"]), frozenset(from_ranges(value["done"])), tuple(from_ranges(value["batch"]))
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadOffset(f"{value!r} is no offset of ledgers") from error

    def admitted(self, ledger_ids: Iterable[int]) -> list[int]:
        """As many of these as an offset has room for, the first of them."""
        return sorted(ledger_ids)[: OPEN_AHEAD_MAX - len(self.done)]

    def after(self, delivered: Collection[int], waiting: Iterable[int], end: int) -> LedgersOffset:
        """The offset once these are delivered too; the same one, where nothing is.

        `waiting` are ledgers that are still to come, and `end` is the id behind all that there are.
        """
        if not delivered:
            return self
        done = self.done | frozenset(delivered)
        left = (i for i in waiting if i >= self.below and i not in done)
        below = max(self.below, min(left, default=end))
        return LedgersOffset(below, frozenset(i for i in done if i >= below), tuple(sorted(delivered)))


@dataclass(frozen=True, slots=True)
class KnownId:
    """An id that a ledger has or had, and when that ledger was made, if that is known."""

    ledger_id: int
    created_ms: int | None = None


def missing_id(known: Sequence[KnownId], first_ledger: int, now_ms: int) -> int | None:
    """The first id from `first_ledger` on that may still become a ledger though there are later ones."""
    oldest_ms = now_ms - 1000 * GAP_SECONDS
    long_ago = max(
        (one.ledger_id for one in known if one.created_ms is not None and one.created_ms < oldest_ms),
        default=first_ledger - 1,
    )
    expected = max(first_ledger, long_ago + 1)
    for one in known:
        if one.ledger_id > expected:
            return expected
        expected = max(expected, one.ledger_id + 1)
    return None


@dataclass(frozen=True, slots=True)
class JournalOffset:
    """The next transaction to deliver."""

    txid: int

    def to_json(self) -> dict[str, Any]:
        return {"txid": self.txid}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> JournalOffset:
        try:
            return cls(int(value["txid"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BadOffset(f"{value!r} is no offset of a journal") from error


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
