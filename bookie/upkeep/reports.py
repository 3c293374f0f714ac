"""Reports of repairs and scrubs for operators. Plain values, which `dataclasses.asdict` turns into JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..wire.messages import EntryRange

LISTED_MAX = 1000
"""Maximum number of ledgers that a report lists; any more are only counted."""

WHY_CHARS_MAX = 500
"""Maximum length of each reason, so that an entire report fits `wire.messages.REPORT_BYTES_MAX`."""

SUMMED = ("entries", "bytes", "frames_removed", "fragments_moved")
"""The fields of a ledger's tally that reports sum up."""


@dataclass(frozen=True, slots=True)
class Unrepaired:
    """A ledger that still lacks entries here, and why. Until it is repaired, the bookie does not answer "no such entry"
    for any of its absent entries (rule R6)."""

    ledger_id: int
    why: str


@dataclass(slots=True)
class Tally:
    """The work already done for one ledger, and the entries that could not be fetched. `why_not` is empty if the bookie
    has all entries that the metadata places on it.

    `frames_unreadable`: number of suspected frames that are unreadable.
    """

    ledger_id: int
    entries: int = 0
    bytes: int = 0
    frames_removed: int = 0
    fragments_moved: int = 0
    failures: int = 0
    why_not: str = ""
    frames_unreadable: int = 0
    lacking: list[EntryRange] = field(default_factory=list)

    def fail(self, why: str, *lacking: EntryRange) -> None:
        """Records that work remains to be done, and why; only the first reason is reported."""
        self.why_not = self.why_not or why
        self.lacking += lacking

    def add(self, other: Tally) -> None:
        """Adds the tally of another part of the same ledger."""
        for name in (*SUMMED, "failures", "frames_unreadable"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.why_not:
            self.fail(other.why_not, *other.lacking)


@dataclass(frozen=True, slots=True)
class RepairReport:
    """Result of a repair. `unrepaired` lists up to LISTED_MAX of the `ledgers_unrepaired`."""

    ledgers: int = 0
    ledgers_unrepaired: int = 0
    entries: int = 0
    bytes: int = 0
    frames_removed: int = 0
    fragments_moved: int = 0
    unrepaired: tuple[Unrepaired, ...] = ()

    def plus(self, other: RepairReport) -> RepairReport:
        """Sums two reports; a ledger in both is counted twice."""
        both = (mine + theirs for mine, theirs in zip(_values(self), _values(other), strict=True))
        added = RepairReport(*both)
        return replace(added, unrepaired=added.unrepaired[:LISTED_MAX])


def _values(report: RepairReport) -> list[Any]:
    return [getattr(report, one.name) for one in fields(report)]


@dataclass(slots=True)
class ScrubReport:
    """Findings of a scrub pass over the log, which may still be running.

    `damaged`: stretches of the log that once held records but no longer do; they remain until their segments,
    `segments_damaged`, are emptied and deleted. `frames_damaged`: frames that the index points to and that could not be
    read; `entries_repaired`: entries fetched to replace the entries of such frames. `frames_restored`: frames that were
    in the log, but not in the index. `states_rewritten`: ledgers that had a fence or state in a damaged segment.
    `unread`: segments that could not be opened.
    """

    segments: int = 0
    bytes_read: int = 0
    records: int = 0
    damaged: int = 0
    frames_damaged: int = 0
    entries_repaired: int = 0
    frames_restored: int = 0
    states_rewritten: int = 0
    ledgers_unrepaired: int = 0
    segments_damaged: tuple[int, ...] = ()
    unread: tuple[str, ...] = ()
    unrepaired: tuple[Unrepaired, ...] = ()


@dataclass(slots=True)
class RoundTotals:
    """Totals of all rounds of collection and compaction since the start, except `unlisted`, which is from the last
    round.

    `rounds`: number of successful rounds and of failed ones.
    """

    rounds: dict[str, int] = field(default_factory=lambda: {"done": 0, "failed": 0})
    ledgers_forgotten: int = 0
    frames_dropped: int = 0
    unlisted: int = 0
    segments_dropped: int = 0
    bytes_moved: int = 0
    bytes_freed: int = 0

    def add(self, report: Mapping[str, Any]) -> None:
        """Adds a successful round."""
        self.rounds["done"] += 1
        self.unlisted = report["unlisted"]
        for name in ("ledgers_forgotten", "frames_dropped", "segments_dropped", "bytes_moved", "bytes_freed"):
            setattr(self, name, getattr(self, name) + report[name])


@dataclass(slots=True)
class RepairProgress:
    """Progress of a repair, which may be read while it runs."""

    ledgers: int = 0
    ledgers_done: int = 0
    entries: int = 0
    bytes: int = 0


class Summary:
    """Sums up repairs of ledgers. A ledger that appears more than once counts as only one unrepaired ledger."""

    def __init__(self) -> None:
        self._sum = RepairReport()
        self._listed: list[Unrepaired] = []
        self._unrepaired: set[int] = set()

    def add(self, done: Tally) -> None:
        if done.why_not:
            self._note(done)
        added = self._sum.plus(RepairReport(1, 0, *(getattr(done, name) for name in SUMMED)))
        self._sum = replace(added, ledgers_unrepaired=len(self._unrepaired))

    def _note(self, done: Tally) -> None:
        if done.ledger_id not in self._unrepaired and len(self._listed) < LISTED_MAX:
            self._listed.append(Unrepaired(done.ledger_id, done.why_not[:WHY_CHARS_MAX]))
        self._unrepaired.add(done.ledger_id)

    def report(self) -> RepairReport:
        return replace(self._sum, unrepaired=tuple(self._listed))
