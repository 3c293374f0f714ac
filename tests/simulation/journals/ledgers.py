"""Ledgers of segments: batches get to disk one after the other, and none after the ledger was ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from qjm_compat.acceptor.programs.acceptor_effects import LedgerEnd
from qjm_compat.batch import Batch

Confirm = Callable[[bool], None]
"""Told whether the batch is confirmed; one that is not may be on disk all the same."""


@dataclass(slots=True)
class Pending:
    """A batch on its way to disk. `is_kept` is settled when the ledger is ended before it arrives."""

    batch: Batch
    confirm: Confirm
    is_kept: bool | None = None


@dataclass(slots=True)
class Ledger:
    """`is_broken`: its writer's handle takes no more. `left_by` names the call that may have lost it."""

    ledger_id: int
    made_by: object = None
    batches: list[Batch] = field(default_factory=list)
    pending: deque[Pending] = field(default_factory=deque)
    is_closed: bool = False
    is_dropped: bool = False
    is_broken: bool = False

    def end(self, keep: int) -> LedgerEnd:
        """Closes it with the first `keep` batches of those under way."""
        if not self.is_closed:
            self.is_closed = True
            for number, one in enumerate(self.pending):
                one.is_kept = number < keep and not self.is_broken
                if one.is_kept:
                    self.batches.append(one.batch)
        return self.look()

    def look(self) -> LedgerEnd:
        """What is on disk."""
        if not self.batches:
            return LedgerEnd(None)
        return LedgerEnd(self.batches[-1].last_txid, self.batches[-1].committed_txid)

    def land(self, one: Pending) -> bool:
        """The next batch is where it was going; whether it is on disk."""
        arrived = self.pending.popleft()
        assert arrived is one, "batches get to disk in order"
        if one.is_kept is None:
            one.is_kept = not (self.is_closed or self.is_broken)
            if one.is_kept:
                self.batches.append(one.batch)
        return one.is_kept

    @property
    def content(self) -> bytes:
        return b"".join([bytes(batch.records) for batch in self.batches])
