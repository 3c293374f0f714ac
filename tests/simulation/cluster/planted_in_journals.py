"""Bugs planted in the journals' shells: manager, loggers, acceptor, ledgers of segments."""

from __future__ import annotations

import asyncio

import pytest

from qjm_compat import aio
from qjm_compat.acceptor.acceptor_ledgers import AcceptorLedgers, BatchInFlight
from qjm_compat.acceptor.intake import EditsIntake
from qjm_compat.acceptor.programs.acceptor_effects import LedgerEnd
from qjm_compat.errors import StaleEpoch
from qjm_compat.requests import BatchDone, SendEdits
from tests.simulation.engine.planted import bug, instead_of

Patch = pytest.MonkeyPatch


# --- journals ---------------------------------------------------------------------------------------


@bug(within=400, known=43)
def answers_a_batch_before_it_is_on_disk(patch: Patch) -> None:
    """J3"""

    async def broken(self: BatchInFlight) -> None:
        return None

    begin = EditsIntake.begin

    def broken_too(self: EditsIntake, request: SendEdits, done: BatchDone) -> bool:
        is_taken = begin(self, request, lambda error: None)
        if is_taken:
            asyncio.get_running_loop().call_soon(done, None)
        return is_taken

    patch.setattr(BatchInFlight, "confirmed", broken)
    patch.setattr(EditsIntake, "begin", broken_too)


@instead_of(AcceptorLedgers, "end", within=400, known=1)
async def ends_no_ledger_of_an_earlier_writer(self: AcceptorLedgers, ledger_id: int) -> LedgerEnd:
    """J2: the journal is promised to another, and the ledger of the segment that is open stays open."""
    return await self.look(ledger_id)


@bug(within=400, known=31)
def lets_a_lost_writer_go_on(patch: Patch) -> None:
    """A fence met in an append is taken for a bookie's failure, and the batch for written."""
    send, begin = EditsIntake.send, EditsIntake.begin

    async def broken(self: EditsIntake, request: SendEdits) -> None:
        try:
            await send(self, request)
        except StaleEpoch:
            return

    def broken_too(self: EditsIntake, request: SendEdits, done: BatchDone) -> bool:
        return begin(self, request, lambda error: done(None if isinstance(error, StaleEpoch) else error))

    patch.setattr(EditsIntake, "send", broken)
    patch.setattr(EditsIntake, "begin", broken_too)


@instead_of(aio.QuorumJournalManager, "close", within=400, known=1)
async def keeps_its_ledgers_open(self: aio.QuorumJournalManager) -> None:
    """A journal that is let go leaves its stores open."""
