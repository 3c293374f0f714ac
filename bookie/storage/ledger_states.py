"""What a bookie holds in memory of its ledgers: as many as fit, the others stand in the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..index.index import Index
from ..index.ledger_state import Fence, LedgerState

STATES_MAX = 20_000
"""Ledgers held in memory between two checkpoints; those at work are held beyond that."""

IN_LIMBO = (
    "the bookie may have lost some of this ledger; it vouches for it again after `bookledger bookie repair`"
)


class LedgerStates:
    """States by ledger. Belongs to the event loop. `is_dirty`: the index does not hold the ledger as it is."""

    def __init__(self, index: Index, is_dirty: Callable[[int], bool]) -> None:
        self._index = index
        self._is_dirty = is_dirty
        self._held: dict[int, LedgerState] = {}
        self.forgets = 0
        """How often ledgers were forgotten: what was learnt of one before that may be out of date."""

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, ledger_id: int) -> LedgerState:
        """The ledger's state, to be changed; a blank one where nothing is known of it."""
        state = self._held.get(ledger_id)
        if state is None:
            state = self._held[ledger_id] = self._index.ledger(ledger_id) or LedgerState(ledger_id)
        return state

    def peek(self, ledger_id: int) -> LedgerState:
        """The ledger's state, for looking at; what strangers ask for is not kept."""
        return self._held.get(ledger_id) or self._index.ledger(ledger_id) or LedgerState(ledger_id)

    def is_fenced(self, ledger_id: int) -> bool:
        """Whether its writer is refused here, on disk."""
        return self.peek(ledger_id).fence is Fence.DURABLE

    def row(self, ledger_id: int) -> bytes:
        """The row of the index that says what the state is now."""
        return self.hold(ledger_id).encode()

    def shrink(self) -> None:
        """Lets go of ledgers beyond the bound that the index knows as well, those held longest first."""
        surplus = len(self._held) - STATES_MAX
        if surplus <= 0:
            return
        clean = [ledger_id for ledger_id, state in self._held.items() if self._may_go(ledger_id, state)]
        for ledger_id in clean[:surplus]:
            del self._held[ledger_id]

    def _may_go(self, ledger_id: int, state: LedgerState) -> bool:
        # What waits for the disk is in no row yet.
        return state.fence is not Fence.PENDING and not self._is_dirty(ledger_id)

    def forget_new_verifiers(self) -> None:
        """Whoever wants to write to a ledger that is in no row makes the bookie ask the metadata once more whose it is:
        it may have been forgotten, and the log, of which all this was read, does not say so."""
        for ledger_id, state in self._held.items():
            if self._index.ledger(ledger_id) is None:
                state.verifier_in_log, state.verifier = state.verifier, None

    def forget(self, ledger_ids: Iterable[int]) -> None:
        """These ledgers are deleted. Whoever still writes to one of them is fenced, as long as it is held; then the
        metadata is asked, where its deletion stands."""
        self.forgets += 1
        for ledger_id in ledger_ids:
            before = self.peek(ledger_id)
            if before.fence is not Fence.PENDING:  # else somebody waits for it
                fenced = LedgerState(ledger_id, fence=Fence.DURABLE, verifier=before.verifier)
                fenced.identity = before.identity
                self._held[ledger_id] = fenced

    def forget_former(self, ledger_id: int) -> None:
        """Nothing is known of the ledger; for who applies the log, of which that follows."""
        self._held.pop(ledger_id, None)
