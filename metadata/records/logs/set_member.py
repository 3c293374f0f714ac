"""A log's place in a set."""

from __future__ import annotations

from dataclasses import dataclass

from ..ledger_record import IDENTITY_BYTES


@dataclass(frozen=True, slots=True)
class SetMember:
    """A log's place in a set: the set's identity, the number of the log, and the number of logs.

    `generation`: the generation of the set's record from which the log has taken its retention and legal hold.
    """

    log_set: bytes
    number: int
    logs: int
    generation: int

    def __post_init__(self) -> None:
        if len(self.log_set) != IDENTITY_BYTES or not 0 <= self.number < self.logs or self.generation < 0:
            raise ValueError(f"no log is number {self.number} of {self.logs} of set {self.log_set.hex()!r}")
