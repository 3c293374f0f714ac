"""Cache of ledger states. It keeps as many as fit in memory; the rest are in the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..index.index import Index
from ..index.local_ledger_state import Fence, LocalLedgerState

STATES_MAX = 20_000
"""Maximum number of ledgers in memory between two checkpoints; changed ledgers are kept even beyond this number."""

IN_LIMBO = "the bookie may have lost entries of this ledger; run `bookledger bookie repair` to serve it again"


class LedgerStates:
    """States by ledger. Belongs to the event loop. `is_dirty` returns whether the index lacks the ledger's current
    state."""

    def __init__(self, index: Index, is_dirty: Callable[[int], bool]) -> None:
        self._index = index
        self._is_dirty = is_dirty
        self._held: dict[int, LocalLedgerState] = {}
        self.forgets = 0
        """Number of calls of `forget`. A ledger record that was read before such a call may be out of date."""

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, ledger_id: int) -> LocalLedgerState:
        """Returns the ledger's state for modification, or a blank state if the ledger is unknown."""
        state = self._held.get(ledger_id)
        if state is None:
            state = self._held[ledger_id] = self._index.ledger(ledger_id) or LocalLedgerState(ledger_id)
        return state

    def peek(self, ledger_id: int) -> LocalLedgerState:
        """Returns the ledger's state for reading, without caching it, so that requests for unknown ledgers use no
        memory."""
        return self._held.get(ledger_id) or self._index.ledger(ledger_id) or LocalLedgerState(ledger_id)

    def is_fenced(self, ledger_id: int) -> bool:
        """Returns whether a fence on disk refuses the ledger's writer."""
        return self.peek(ledger_id).fence is Fence.DURABLE

    def row(self, ledger_id: int) -> bytes:
        """Encodes the current state as a row of the index."""
        return self.hold(ledger_id).encode()

    def shrink(self) -> None:
        """Evicts ledgers in excess of the limit if their state is in the index, beginning with those held longest."""
        surplus = len(self._held) - STATES_MAX
        if surplus <= 0:
            return
        clean = [ledger_id for ledger_id, state in self._held.items() if self._may_go(ledger_id, state)]
        for ledger_id in clean[:surplus]:
            del self._held[ledger_id]

    def _may_go(self, ledger_id: int, state: LocalLedgerState) -> bool:
        # A pending fence is not in the index yet.
        return state.fence is not Fence.PENDING and not self._is_dirty(ledger_id)

    def outdate_lookups(self) -> list[int]:
        """Invalidates all earlier reads of ledger records. Returns the ledgers in memory that are not fenced; for any
        other ledger, the bookie accepts entries only after it has read the record."""
        self.forgets += 1
        return [ledger_id for ledger_id, state in self._held.items() if state.fence is not Fence.DURABLE]

    def forget_new_verifiers(self) -> None:
        """Clears the verifiers of ledgers that are not in the index, so that their next write looks them up: the ledger
        may have been forgotten, which the log does not record."""
        for ledger_id, state in self._held.items():
            if self._index.ledger(ledger_id) is None:
                state.verifier_in_log, state.verifier = state.verifier, None

    def forget(self, ledger_ids: Iterable[int]) -> None:
        """Forgets deleted ledgers. A writer that continues is fenced as long as the state is cached; after that, the
        bookie asks the metadata, which has the tombstone."""
        self.forgets += 1
        for ledger_id in ledger_ids:
            before = self.peek(ledger_id)
            if before.fence is not Fence.PENDING:  # otherwise a request waits for the fence
                fenced = LocalLedgerState(ledger_id, fence=Fence.DURABLE, verifier=before.verifier)
                fenced.identity = before.identity
                self._held[ledger_id] = fenced

    def forget_former(self, ledger_id: int) -> None:
        """Drops the ledger's state; used in replay when a record of another ledger with the same id follows."""
        self._held.pop(ledger_id, None)
