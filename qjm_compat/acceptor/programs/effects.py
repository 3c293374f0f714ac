"""The effects that an acceptor's programs yield, and their outcomes.

A program is a generator: `yield from` an effect gives its outcome, and the program returns the answer of its call. An
effect that fails is thrown into it as a JournalError. So a whole call reads from top to bottom, does
no I/O of its own, and may stop for ever at any effect: that is a crash.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from metadata.records.journal_record import FinalizedSegment, JournalState
from metadata.records.journal_store import VersionedSegment, VersionedState

R = TypeVar("R")


class EffectOf(Generic[R]):
    """What a program asks for; its outcome is an R."""

    __slots__ = ()

    def __iter__(self) -> Program[R]:
        outcome: R = yield self
        return outcome


Effect: TypeAlias = EffectOf[Any]
Program: TypeAlias = Generator[Effect, Any, R]


@dataclass(frozen=True, slots=True)
class LedgerEnd:
    """The end of a segment's ledger: its last txid (None: no batch at all), and the latest committed txid in it."""

    end_txid: int | None
    committed_txid: int | None = None


@dataclass(frozen=True, slots=True)
class ReadState(EffectOf[VersionedState | None]):
    """The current state."""


@dataclass(frozen=True, slots=True)
class SwapState(EffectOf[VersionedState | None]):
    """Replaces the state of `version` by compare-and-swap; None on a conflict."""

    state: JournalState
    version: int | None


@dataclass(frozen=True, slots=True)
class ReadFinalized(EffectOf[VersionedSegment | None]):
    """The record of a finalized segment."""

    start_txid: int


@dataclass(frozen=True, slots=True)
class PutFinalized(EffectOf[bool]):
    """Stores the record where there is none, or replaces the one of `version`; whether it did."""

    segment: FinalizedSegment
    version: int | None = None


@dataclass(frozen=True, slots=True)
class ListFinalized(EffectOf[tuple[VersionedSegment, ...]]):
    """All records, in order."""


@dataclass(frozen=True, slots=True)
class DeleteFinalized(EffectOf[None]):
    """Deletes the record."""

    found: VersionedSegment


@dataclass(frozen=True, slots=True)
class NewLedger(EffectOf[int]):
    """Creates a ledger for the segment, which this acceptor may append to."""

    start_txid: int
    writer_epoch: int
    layout_version: int


@dataclass(frozen=True, slots=True)
class EndLedger(EffectOf[LedgerEnd]):
    """Fences, recovers and closes the ledger. Nothing appends to it after this."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class LookAtLedger(EffectOf[LedgerEnd]):
    """How far a ledger is confirmed, without disturbing its writer."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class Copied:
    """A segment copied here: its new closed ledger, and the layout of its edits."""

    ledger_id: int
    layout_version: int


@dataclass(frozen=True, slots=True)
class CopySegment(EffectOf[Copied]):
    """Copies exactly these txids from another acceptor, and verifies them."""

    source: str
    start_txid: int
    end_txid: int
    writer_epoch: int


@dataclass(frozen=True, slots=True)
class DropLedger(EffectOf[None]):
    """Deletes the ledger; one that is already gone is no error."""

    ledger_id: int
