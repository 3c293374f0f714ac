"""The effects that an acceptor's programs yield, and their outcomes.

A program is a generator: it yields one effect at a time, is sent the outcome, and returns the answer of
its call. An effect that fails is thrown into it as a JournalError. So a whole call reads from top to bottom, does
no I/O of its own, and may stop for ever at any effect: that is a crash.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from metadata.records.journal_record import FinalizedSegment, JournalState
from metadata.records.journal_store import VersionedSegment, VersionedState

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LedgerEnd:
    """The end of a segment's ledger: its last txid (None: no batch at all), and the latest committed txid in it."""

    end_txid: int | None
    committed_txid: int | None = None


@dataclass(frozen=True, slots=True)
class ReadState:
    """→ VersionedState | None: the current state."""


@dataclass(frozen=True, slots=True)
class SwapState:
    """→ VersionedState | None: replaces the state of `version` by compare-and-swap; None on a conflict."""

    state: JournalState
    version: int | None


@dataclass(frozen=True, slots=True)
class ReadFinalized:
    """→ VersionedSegment | None: the record of a finalized segment."""

    start_txid: int


@dataclass(frozen=True, slots=True)
class PutFinalized:
    """→ bool: stores the record where there is none, or replaces the one of `version`; whether it did."""

    segment: FinalizedSegment
    version: int | None = None


@dataclass(frozen=True, slots=True)
class ListFinalized:
    """→ tuple[VersionedSegment, ...]: all records, in order."""


@dataclass(frozen=True, slots=True)
class DeleteFinalized:
    """→ None: deletes the record."""

    found: VersionedSegment


@dataclass(frozen=True, slots=True)
class NewLedger:
    """→ int: creates a ledger for the segment, which this acceptor may append to."""

    start_txid: int
    writer_epoch: int
    layout_version: int


@dataclass(frozen=True, slots=True)
class EndLedger:
    """→ LedgerEnd: fences, recovers and closes the ledger. Nothing appends to it after this."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class LookAtLedger:
    """→ LedgerEnd: how far a ledger is confirmed, without disturbing its writer."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class Copied:
    """A segment copied here: its new closed ledger, and the layout of its edits."""

    ledger_id: int
    layout_version: int


@dataclass(frozen=True, slots=True)
class CopySegment:
    """→ Copied: copies exactly these txids from another acceptor, and verifies them."""

    source: str
    start_txid: int
    end_txid: int
    writer_epoch: int


@dataclass(frozen=True, slots=True)
class DropLedger:
    """→ None: deletes the ledger; one that is already gone is no error."""

    ledger_id: int


Effect: TypeAlias = (
    ReadState
    | SwapState
    | ReadFinalized
    | PutFinalized
    | ListFinalized
    | DeleteFinalized
    | NewLedger
    | EndLedger
    | LookAtLedger
    | CopySegment
    | DropLedger
)
Program: TypeAlias = Generator[Effect, Any, R]


def read_finalized(start_txid: int) -> Program[VersionedSegment | None]:
    found: VersionedSegment | None = yield ReadFinalized(start_txid)
    return found


def list_finalized() -> Program[tuple[VersionedSegment, ...]]:
    found: tuple[VersionedSegment, ...] = yield ListFinalized()
    return found


def put_finalized(segment: FinalizedSegment, version: int | None = None) -> Program[bool]:
    stored: bool = yield PutFinalized(segment, version)
    return stored


def swap_state(state: JournalState, version: int | None) -> Program[VersionedState | None]:
    stored: VersionedState | None = yield SwapState(state, version)
    return stored


def read_state() -> Program[VersionedState | None]:
    found: VersionedState | None = yield ReadState()
    return found


def new_ledger(start_txid: int, writer_epoch: int, layout_version: int) -> Program[int]:
    ledger_id: int = yield NewLedger(start_txid, writer_epoch, layout_version)
    return ledger_id


def end_ledger(ledger_id: int) -> Program[LedgerEnd]:
    end: LedgerEnd = yield EndLedger(ledger_id)
    return end


def look_at_ledger(ledger_id: int) -> Program[LedgerEnd]:
    end: LedgerEnd = yield LookAtLedger(ledger_id)
    return end


def copy_segment(source: str, start_txid: int, end_txid: int, writer_epoch: int) -> Program[Copied]:
    copied: Copied = yield CopySegment(source, start_txid, end_txid, writer_epoch)
    return copied


def drop_ledger(ledger_id: int) -> Program[None]:
    yield DropLedger(ledger_id)
