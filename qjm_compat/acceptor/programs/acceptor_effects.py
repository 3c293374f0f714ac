"""The effects that an acceptor's programs yield, and their outcomes.

A program is a generator: `yield from` an effect returns its outcome, and the program returns the answer to its call. If
an effect fails, a JournalError is thrown into the program. Thus each program can be read from top to bottom, does no
I/O itself, and may stop forever at any effect, which models a crash.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from metadata.records.journal_record import FinalizedSegment, JournalState
from metadata.records.journal_store import VersionedSegment, VersionedState
from metadata.version import Version

R = TypeVar("R")


class EffectOf(Generic[R]):
    """An operation that a program asks its shell, the code that runs it, to perform. The outcome is of type R."""

    __slots__ = ()

    def __iter__(self) -> Program[R]:
        outcome: R = yield self
        return outcome


Effect: TypeAlias = EffectOf[Any]
Program: TypeAlias = Generator[Effect, Any, R]


@dataclass(frozen=True, slots=True)
class LedgerEnd:
    """The end of a segment's ledger: its last txid (None if it has no batches) and the latest committed txid recorded
    in it."""

    end_txid: int | None
    committed_txid: int | None = None


@dataclass(frozen=True, slots=True)
class ReadState(EffectOf[VersionedState | None]):
    """Reads the acceptor's current state."""


@dataclass(frozen=True, slots=True)
class SwapState(EffectOf[VersionedState | None]):
    """Replaces the state by compare-and-swap if its version is still `version`. The outcome is None on a conflict."""

    state: JournalState
    version: Version | None


@dataclass(frozen=True, slots=True)
class ReadFinalized(EffectOf[VersionedSegment | None]):
    """Reads the record of a finalized segment."""

    start_txid: int


@dataclass(frozen=True, slots=True)
class PutFinalized(EffectOf[bool]):
    """Stores the record of a finalized segment: a new record, or a replacement if the existing one has `version`.
    Returns whether the record was stored."""

    segment: FinalizedSegment
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class ListFinalized(EffectOf[tuple[VersionedSegment, ...]]):
    """Lists all records of finalized segments, in order."""


@dataclass(frozen=True, slots=True)
class DeleteFinalized(EffectOf[None]):
    """Deletes the record of a finalized segment."""

    found: VersionedSegment


@dataclass(frozen=True, slots=True)
class CreateLedger(EffectOf[int]):
    """Creates a ledger for the segment. This acceptor may append to the ledger."""

    start_txid: int
    writer_epoch: int
    layout_version: int


@dataclass(frozen=True, slots=True)
class EndLedger(EffectOf[LedgerEnd]):
    """Fences, recovers and closes the ledger. After that, no writer can append to it."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class LookAtLedger(EffectOf[LedgerEnd]):
    """Reads the confirmed end of a ledger without disturbing its writer."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class Copied:
    """A segment that was copied to this acceptor: its new closed ledger, and the layout of its edits."""

    ledger_id: int
    layout_version: int


@dataclass(frozen=True, slots=True)
class CopySegment(EffectOf[Copied]):
    """Copies exactly these txids from another acceptor and verifies them."""

    source: str
    start_txid: int
    end_txid: int
    writer_epoch: int


@dataclass(frozen=True, slots=True)
class DropLedger(EffectOf[None]):
    """Deletes the ledger. Does nothing if the ledger is already gone."""

    ledger_id: int
