"""One place of a writer's ensemble: which bookie serves it, over which lane, and what it has answered."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.records.ledger_record import BookieRef


@dataclass(slots=True)
class Position:
    """`lane` is None while its bookie is failed. `behind`: why it is being replaced though it moves (rule W6).

    `acked_through` is on its disk, `written_through` in its log at least. `failure` is what its bookie
    failed with, until it has answered something since; `on_trial`: taken back after a failure, and nothing
    answered since.
    """

    bookie: BookieRef
    lane: int | None
    acked_through: int
    written_through: int
    failure: str = ""
    on_trial: bool = False
    behind: str = ""

    @property
    def wanting(self) -> str:
        """Why another bookie is looked for; empty where none is."""
        return self.behind if self.lane is not None else self.failure

    def answered(self, *, acked: int, written: int) -> bool:
        """Notes how far it has come; says whether that is news."""
        if acked <= self.acked_through and written <= self.written_through:
            return False
        self.acked_through = max(self.acked_through, acked)
        self.written_through = max(self.written_through, acked, written)
        self.on_trial, self.failure = False, ""
        return True

    def fails(self, why: str) -> None:
        """Nothing more is sent to its bookie over this lane."""
        self.lane, self.failure, self.behind = None, why, ""

    def withdraw(self, through: int) -> None:
        """Nothing that it answered beyond this entry counts any more (F8)."""
        self.acked_through = self.written_through = through
        self.behind = ""

    def serve_by(self, bookie: BookieRef) -> None:
        """Another bookie takes the place."""
        self.bookie, self.on_trial, self.failure = bookie, False, ""
