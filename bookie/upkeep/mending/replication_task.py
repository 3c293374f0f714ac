"""A re-replication task for one copy of one fragment: the copy must be made, completed or moved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from metadata.placement import neighbours
from metadata.records.ledger_record import BookieRef, Fragment


class Reason(StrEnum):
    """The reason why a copy needs work."""

    LACKING = "lacks entries"
    LOST = "is lost"
    DRAINING = "is drained or decommissioned"
    MOVED = "has to hold less data"
    MISPLACED = "shares its fault domain with another copy"


@dataclass(frozen=True, slots=True)
class ReplicationTask:
    """A task for the copy of one fragment at this position. `write_quorum` is that of the ledger."""

    fragment: Fragment
    last_entry: int
    position: int
    reason: Reason
    write_quorum: int

    @property
    def bookie(self) -> BookieRef:
        return self.fragment.ensemble[self.position]

    @property
    def beside(self) -> list[BookieRef]:
        """The other bookies that hold copies of the same entries."""
        ensemble = self.fragment.ensemble
        return [ensemble[n] for n in neighbours(self.position, len(ensemble), self.write_quorum)]

    def __str__(self) -> str:
        return f"entries {self.fragment.first_entry} to {self.last_entry}: {self.bookie} {self.reason}"
