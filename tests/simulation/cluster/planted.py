"""Bugs planted in what only whole processes have, one at a time, to see that the runs find them."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from bookie.index.ledger_state import LedgerState
from bookie.serving import daemon, service
from bookie.serving.directory import LockedDirectory
from bookie.serving.life import Lives
from bookie.serving.listener import Listener
from bookie.serving.registration import Registrar
from bookie.serving.service import BookieService
from bookie.storage import checkpointing
from bookie.storage.bookie import Bookie
from bookie.storage.checkpointing import Checkpointer
from bookie.storage.core import BookieCore
from bookie.upkeep.collecting.collector import Collector
from bookie.upkeep.mending.repair import Repair
from bookie.wire import Frame, LacReply, LacRequest, ReadReply, ReadRequest, Status
from ledgers import loop_thread
from ledgers.blocking.write import WriteHandle
from ledgers.bookies.grpc_bookies import GrpcBookieClient
from ledgers.loop_thread import LoopThread
from ledgers.recovering.peers import ClusterPeers
from metadata.records.ledger_record import LedgerRecord
from metadata.records.lives import Life
from tests.simulation.engine.planted import Plant
from tests.simulation.shells import planted as shells

Patch = pytest.MonkeyPatch


# --- daemon, life -----------------------------------------------------------------------------------


def serves_without_vouching(patch: Patch) -> None:
    """A bookie that has lost some of its log serves as if nothing were missing (R6)."""

    async def broken(bookie: Bookie, lived: Lives) -> None:
        bookie.has_lost = False

    patch.setattr(daemon, "_vouch_for_nothing_lost", broken)


def takes_an_older_copy_for_the_newest(patch: Patch) -> None:
    patch.setattr(Lives, "is_older_copy", lambda self, position: False)


def begins_the_same_life_again(patch: Patch) -> None:
    """The metadata does not hear of a new life, so a directory of the one before is taken for the newest."""

    async def broken(self: Lives, position: int) -> Life:
        return Life(max(self.here, self.known.number), position)

    patch.setattr(Lives, "begin", broken)


def goes_on_after_its_log_has_failed(patch: Patch) -> None:
    async def broken(*running: object) -> None:
        await asyncio.Event().wait()

    patch.setattr(daemon, "until_one_fails", broken)


def says_nothing_of_a_failed_last_sync(patch: Patch) -> None:
    """The process ends with 0 where it was the very last sync that failed (B1)."""

    async def broken(bookie: Bookie) -> None:
        await bookie.close()

    patch.setattr(daemon, "_close", broken)


def leaves_a_directory_locked(patch: Patch) -> None:
    patch.setattr(LockedDirectory, "close", lambda self: None)


# --- listener, registration -------------------------------------------------------------------------


def gives_no_answers_at_a_stop(patch: Patch) -> None:
    """The server goes on taking calls after its bookie was closed."""

    async def broken(self: Listener) -> None:
        return None

    patch.setattr(Listener, "stop", broken)


def stays_registered(patch: Patch) -> None:
    async def broken(self: Registrar) -> None:
        return None

    patch.setattr(Registrar, "unregister", broken)


def never_registers_again(patch: Patch) -> None:
    is_renewed = Registrar._is_renewed

    async def broken(self: Registrar) -> bool:
        await is_renewed(self)
        return True

    patch.setattr(Registrar, "_is_renewed", broken)


def forgets_to_say_that_it_is_writable_again(patch: Patch) -> None:
    set_read_only = Registrar.set_read_only

    def broken(self: Registrar, read_only: bool) -> None:
        if read_only:
            set_read_only(self, read_only)

    patch.setattr(Registrar, "set_read_only", broken)


def takes_every_registration_for_its_own(patch: Patch) -> None:
    async def broken(self: Registrar) -> bool:
        return True

    patch.setattr(Registrar, "_stands", broken)


# --- service ----------------------------------------------------------------------------------------


def stores_for_another_incarnation(patch: Patch) -> None:
    """W7"""
    take = service._AppendStream._take

    def broken(self: Any, request: Any, refused: Any) -> None:
        take(self, type(request)(self._bookie.incarnation, request.first_sequence, request.frames), refused)

    patch.setattr(service._AppendStream, "_take", broken)


def reads_for_another_incarnation(patch: Patch) -> None:
    """W7: what an empty bookie does not have is denied in the name of the one that was there before."""

    async def broken(self: BookieService, request: ReadRequest) -> ReadReply:
        if request.fence and (why := await self._refuses_fence(request.ledger_id, request.credential)):
            return ReadReply(why[0], detail=why[1])
        return await self._bookie.read(request)

    patch.setattr(BookieService, "_read", broken)


def answers_frames_after_the_stop(patch: Patch) -> None:
    """What comes while the bookie stops is called stored."""
    answer = service._AppendStream._answer

    def broken(self: Any, sequence: int) -> Any:
        tell = answer(self, sequence)

        def told(status: Status, detail: str) -> None:
            tell(Status.OK if status is Status.STOPPING else status, detail)

        return told

    patch.setattr(service._AppendStream, "_answer", broken)


def answers_before_the_sync(patch: Patch) -> None:
    """B1: the canary."""
    append = Bookie.append

    def broken(self: Bookie, frame: Frame, answer: Any) -> None:
        append(self, frame, lambda status, detail: None)
        answer(Status.OK, "")

    patch.setattr(Bookie, "append", broken)


# --- the bookie's storage ---------------------------------------------------------------------------


def fences_before_the_sync(patch: Patch) -> None:
    """R1"""
    fence = Bookie.fence

    async def broken(self: Bookie, ledger_id: int, verifier: bytes = b"") -> tuple[Status, str]:
        if self._loop.time() % 1.0 < 0.5:
            self._loop.create_task(fence(self, ledger_id, verifier))
            return Status.OK, ""
        return await fence(self, ledger_id, verifier)

    patch.setattr(Bookie, "fence", broken)


def forgets_states_at_a_checkpoint(patch: Patch) -> None:
    """Fences and last-add-confirmed are gone after a restart, once the log's place is passed."""
    patch.setattr(Checkpointer, "changed", lambda self, ledger_id: None)


def denies_what_it_may_have_lost(patch: Patch) -> None:
    """R6: limbo is forgotten in reads."""
    peek = Bookie.read

    async def broken(self: Bookie, request: ReadRequest) -> ReadReply:
        state: LedgerState = self.states.peek(request.ledger_id)
        was, state.limbo = state.limbo, False
        try:
            return await peek(self, request)
        finally:
            state.limbo = was

    patch.setattr(Bookie, "read", broken)


def vouches_for_the_lac_it_may_have_lost(patch: Patch) -> None:
    lac = Bookie.last_add_confirmed

    async def broken(self: Bookie, request: LacRequest) -> LacReply:
        reply = await lac(self, request)
        if reply.status is Status.UNKNOWN:
            return LacReply(Status.NO_SUCH_LEDGER, self.states.peek(request.ledger_id).last_add_confirmed)
        return reply

    patch.setattr(Bookie, "last_add_confirmed", broken)


def takes_writers_entries_behind_a_fence(patch: Patch) -> None:
    append = BookieCore.append

    def broken(self: BookieCore, frame: Frame, ticket: object) -> Any:
        return append(self, type(frame)(**{**_fields(frame), "recovery": True}), ticket)

    patch.setattr(BookieCore, "append", broken)


def _fields(frame: Frame) -> dict[str, Any]:
    return {name: getattr(frame, name) for name in frame.__dataclass_fields__}


def leaves_a_checkpoint_behind(patch: Patch) -> None:
    """Whoever is cancelled twice no longer waits for it."""

    async def broken(working: asyncio.Future[Any]) -> Any:
        try:
            return await asyncio.shield(working)
        finally:
            await asyncio.wait([working])

    patch.setattr(checkpointing, "to_the_end", broken)


# --- upkeep -----------------------------------------------------------------------------------------


def collects_what_is_still_here(patch: Patch) -> None:
    """B3: every closed ledger is taken for one that is placed elsewhere."""
    patch.setattr(Collector, "_is_elsewhere", lambda self, record: record.is_closed)
    patch.setattr(
        Collector, "_misplaced", lambda self, record: list(self._bookie.index.places(record.ledger_id))
    )


def leaves_limbo_unrepaired(patch: Patch) -> None:
    async def broken(self: Repair, ledger_id: int) -> Any:
        await self._leave_limbo(ledger_id)
        return await repair(self, ledger_id)

    repair = Repair.repair_ledger
    patch.setattr(Repair, "repair_ledger", broken)


def peers_leave_out_a_page(patch: Patch) -> None:
    pages = ClusterPeers._pages

    async def broken(self: ClusterPeers, record: LedgerRecord, first: int, last: int, without: Any) -> Any:
        is_first = True
        async for page in pages(self, record, first, last, without):
            if not is_first or len(page) == 1:
                yield page
            else:
                yield page.cut(1, len(page))
            is_first = False

    patch.setattr(ClusterPeers, "_pages", broken)


def leaves_its_peers_connected(patch: Patch) -> None:
    async def broken(self: ClusterPeers) -> None:
        return None

    patch.setattr(ClusterPeers, "close", broken)


# --- the client's connections -----------------------------------------------------------------------


def never_looks_up_a_bookie_again(patch: Patch) -> None:
    """A bookie that has moved, and another that answers at its old address: it counts as gone for ever."""
    patch.setattr(GrpcBookieClient, "_look_up_again", lambda self, bookie: None)


# --- the blocking client ----------------------------------------------------------------------------


def hands_over_only_once(patch: Patch) -> None:
    """What is appended while the loop takes what was handed to it waits for ever."""
    take = WriteHandle._take_handed

    def broken(self: WriteHandle) -> None:
        take(self)
        self._is_taking_due = True

    patch.setattr(WriteHandle, "_take_handed", broken)


def flushes_what_was_taken_only(patch: Patch) -> None:
    async def broken(self: WriteHandle) -> None:
        await self._handle.flush()

    patch.setattr(WriteHandle, "_flush", broken)


def hands_over_in_any_order(patch: Patch) -> None:
    take = WriteHandle._take_handed

    def broken(self: WriteHandle) -> None:
        self._handed.reverse()
        take(self)

    patch.setattr(WriteHandle, "_take_handed", broken)


def goes_on_after_an_interrupt(patch: Patch) -> None:
    """A call that was interrupted runs on, and nobody waits for it."""

    def broken(self: LoopThread, future: Future[Any]) -> Any:
        return future.result()

    patch.setattr(LoopThread, "_result_of", broken)


def leaves_tasks_on_a_closed_loop(patch: Patch) -> None:
    def broken(self: LoopThread) -> None:
        self._loop.run_forever()
        loop_thread.give_back_loop(self._loop)

    patch.setattr(LoopThread, "_serve", broken)


def leaves_reads_behind(patch: Patch) -> None:
    """A read that was left half-way is never ended."""
    patch.setattr(LoopThread, "end_soon", lambda self, source: None)

    async def broken(self: LoopThread, last_work: Any) -> None:
        await last_work()

    patch.setattr(LoopThread, "_close", broken)


PLANTS = (
    Plant((answers_before_the_sync,), 20),
    Plant((serves_without_vouching,), 400),
    Plant((takes_an_older_copy_for_the_newest,), 400),
    Plant((begins_the_same_life_again,), 400),
    Plant((goes_on_after_its_log_has_failed,), 400),
    Plant((says_nothing_of_a_failed_last_sync,), 400),
    Plant((leaves_a_directory_locked,), 400),
    Plant((gives_no_answers_at_a_stop,), 400),
    Plant((stays_registered,), 20),
    Plant((never_registers_again,), 400),
    Plant((forgets_to_say_that_it_is_writable_again,), 400),
    Plant((takes_every_registration_for_its_own,), 400),
    Plant((stores_for_another_incarnation,), 400),
    Plant((reads_for_another_incarnation,), 400),
    Plant((answers_frames_after_the_stop,), 400),
    Plant((fences_before_the_sync,), 400),
    Plant((forgets_states_at_a_checkpoint,), 400),
    Plant((denies_what_it_may_have_lost,), 400),
    Plant((vouches_for_the_lac_it_may_have_lost,), 400),
    Plant((takes_writers_entries_behind_a_fence,), 400),
    Plant((leaves_a_checkpoint_behind,), 800, known=(762,)),
    Plant((collects_what_is_still_here,), 400),
    Plant((leaves_limbo_unrepaired,), 400),
    Plant((peers_leave_out_a_page,), 400),
    Plant((leaves_its_peers_connected,), 400),
    Plant((never_looks_up_a_bookie_again,), 400),
    Plant((hands_over_only_once,), 400),
    Plant((flushes_what_was_taken_only,), 400),
    Plant((hands_over_in_any_order,), 400),
    Plant((goes_on_after_an_interrupt,), 400),
    Plant((leaves_tasks_on_a_closed_loop,), 400),
    Plant((leaves_reads_behind,), 400),
    Plant((shells.takes_silence_for_absence,), 400),
    Plant((shells.believes_in_its_close_before_it_stands,), 400),
    Plant((shells.takes_a_lost_answer_for_success,), 400),
)
