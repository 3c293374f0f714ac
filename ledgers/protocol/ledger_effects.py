"""Effects: requests from the pure machines to their shell. They are frozen, and performed in the order given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bookie.wire import Columns
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..errors import LedgerError


@dataclass(frozen=True, slots=True)
class OpenLane:
    """Start sending to this bookie; from now on, the number `lane` identifies this lane."""

    lane: int
    bookie: BookieRef


@dataclass(frozen=True, slots=True)
class CloseLane:
    """Send nothing more on this lane, and ignore its later reports."""

    lane: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send these entries on the lane, after all entries already sent on it."""

    lane: int
    columns: Columns


@dataclass(frozen=True, slots=True)
class Confirm:
    """Every entry through `last_entry` is confirmed."""

    last_entry: int


@dataclass(frozen=True, slots=True)
class Accept:
    """With deferred sync: every entry through `last_entry` is in the log of an ack quorum, not yet on disk."""

    last_entry: int


@dataclass(frozen=True, slots=True)
class Force:
    """Make the lane's bookie sync all entries sent to it."""

    lane: int


IN_ENSEMBLE = "is in the ensemble"
"""The reason why a healthy bookie is not used as a replacement."""


@dataclass(frozen=True, slots=True)
class FindReplacements:
    """Choose a bookie for each of these positions of the ensemble; answer with `replacements`.

    `failed` gives, by position, the reason why a replacement is sought. The failed bookie may be chosen again if it is
    live; with `in_place` no other bookie may be chosen.
    """

    ensemble: tuple[BookieRef, ...]
    failed: Mapping[int, str]
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Some positions have no bookie now: call `retry_replacements` after a pause."""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """Compare-and-swap the ledger's record; answer with `changed`, `conflicted` or `change_failed`."""

    record: LedgerRecord


@dataclass(frozen=True, slots=True)
class Finish:
    """The machine has ended, with success (None) or with this error; it confirms no further entries."""

    error: LedgerError | None


@dataclass(frozen=True, slots=True)
class FenceLac:
    """Read the last-add-confirmed from this position's bookie with fencing."""

    position: int
    bookie: BookieRef


@dataclass(frozen=True, slots=True)
class ReadFenced:
    """Read entries from this position's bookie with fencing."""

    position: int
    bookie: BookieRef
    first_entry: int
    last_entry: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The ledger is closed; this is its record."""

    record: LedgerRecord


@dataclass(frozen=True, slots=True)
class StartOver:
    """Another client changed the record: recover again from this one, after a random pause."""

    record: LedgerRecord


AppendEffect = (
    OpenLane
    | CloseLane
    | Send
    | Force
    | Accept
    | Confirm
    | FindReplacements
    | RetryLater
    | ChangeRecord
    | Finish
)
RecoveryEffect = AppendEffect | FenceLac | ReadFenced | Recovered | StartOver
