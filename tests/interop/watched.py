"""An acceptor under Hadoop's eyes: tests inject faults into it, draw its files, and spoil what it has at hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from metadata.errors import MetadataError
from metadata.records.journal_record import JournalState
from metadata.records.journal_store import JournalStore
from metadata.store import MetadataStore
from qjm_compat.acceptor.journal import Journal
from qjm_compat.acceptor.programs.acceptor_effects import Effect, SwapState
from qjm_compat.errors import JournalError
from tests.interop.shadow import MovedAside, draw

Point = Literal["before", "after"]
Inject = Callable[[Point], Awaitable[str | None]]
"""What Hadoop's fault injector says at this point: the message of the fault, or nothing."""

SPOIL_EVERY_BYTES = 9
"""As Hadoop's tests spoil a JournalNode's cache."""


class WatchedJournal(Journal):
    """Asks about faults on both sides of storing an accepted recovery, and remembers what it put aside."""

    inject: Inject
    aside: MovedAside

    async def _perform(self, effect: Effect) -> Any:
        if not isinstance(effect, SwapState):
            return await super()._perform(effect)
        stored = self._memory.stored
        before = stored.state if stored is not None else JournalState()
        accepts = effect.state.accepted != before.accepted and bool(effect.state.accepted)
        if accepts:
            await self._fault("before")
        finalized = [found.segment async for found in self._store.list_segments()]
        swapped = await super()._perform(effect)
        if swapped is not None:
            self.aside.note(before, effect.state, finalized)
            if accepts:
                await self._fault("after")
        return swapped

    async def _fault(self, point: Point) -> None:
        message = await self.inject(point)
        if message is not None:
            raise JournalError(message)

    def spoil(self, txid: int) -> None:
        """Changes bytes of the batch in its cache that holds this transaction."""
        batches = self._cache._batches
        for at, batch in enumerate(batches):
            if batch.first_txid <= txid <= batch.last_txid:
                records = bytearray(batch.records)
                for i in range(0, len(records), SPOIL_EVERY_BYTES):
                    records[i] ^= 0xFF
                batches[at] = replace(batch, records=bytes(records))

    @property
    def committed_txid(self) -> int | None:
        return self._memory.committed_txid


async def draw_journal(
    store: MetadataStore,
    journal_id: str,
    name: str,
    directory: Path,
    running: WatchedJournal | None,
    aside: MovedAside,
) -> None:
    """Draws what the store has of the journal, if it has anything; `running` knows what was committed last."""
    records = JournalStore(store, journal_id, name)
    try:
        found = await records.read_state()
        finalized = [segment.segment async for segment in records.list_segments()]
    except MetadataError as error:
        raise JournalError(f"the store of {name} cannot be read: {error}") from error
    if found is None:
        return
    committed = running.committed_txid if running is not None else None
    if committed is None:
        committed = found.state.committed_txid
    draw(directory / journal_id, found.state, finalized, committed, aside)
