"""Bugs planted in the bookie's process: daemon, life, listener, registration, service, storage, upkeep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bookie.serving import daemon
from bookie.serving.bookie_registration import Registrar
from bookie.serving.directory import LockedDirectory
from bookie.serving.history.directory_generation import Lives
from bookie.serving.listener import Listener
from bookie.storage.bookie import Bookie
from bookie.storage.checkpointing import Checkpointer
from bookie.storage.core import BookieCore
from bookie.upkeep.collecting.collector import Collector
from bookie.upkeep.schedule import Schedule
from bookie.wire import Frame, Status
from ledgers.recovering.cluster_peers import ClusterPeers
from metadata.records.ledger_record import LedgerRecord
from tests.simulation.engine.planted import Real, around, bug, instead_of

Patch = pytest.MonkeyPatch


# --- daemon, life -----------------------------------------------------------------------------------


@instead_of(daemon, "_vouch_for_nothing_lost", within=400, known=95)
async def serves_without_vouching(bookie: Bookie, lived: Lives) -> None:
    """A bookie that has lost some of its log serves as if nothing were missing (R6)."""
    bookie.has_lost = False


@instead_of(Lives, "is_older_copy", within=400, known=95)
def takes_an_older_copy_for_the_newest(self: Lives, position: Any) -> Any:
    return False


@instead_of(daemon, "until_one_fails", within=400, known=88)
async def goes_on_after_its_log_has_failed(*running: object) -> None:
    await asyncio.Event().wait()


@instead_of(daemon, "_close", within=400, known=21)
async def says_nothing_of_a_failed_last_sync(bookie: Bookie) -> None:
    """The process ends with 0 where it was the very last sync that failed (B1)."""
    await bookie.close()


@instead_of(LockedDirectory, "close", within=400, known=0)
def leaves_a_directory_locked(self: LockedDirectory) -> None:
    pass


# --- listener, registration -------------------------------------------------------------------------


@instead_of(Listener, "stop", within=400, known=1)
async def gives_no_answers_at_a_stop(self: Listener) -> None:
    """The server goes on taking calls after its bookie was closed."""


@instead_of(Registrar, "give_up", within=20, known=0)
async def stays_registered(self: Registrar) -> None:
    return None


@instead_of(Registrar, "_take_again", within=400, known=2)
async def never_registers_again(self: Registrar) -> None:
    await asyncio.Event().wait()


@around(Registrar, "set_read_only", within=400, known=13)
def forgets_to_say_that_it_is_writable_again(set_read_only: Real, self: Registrar, read_only: bool) -> None:
    if read_only:
        set_read_only(self, read_only)


# --- service ----------------------------------------------------------------------------------------


@around(Bookie, "append", within=20, known=0)
def answers_before_the_sync(append: Real, self: Bookie, frame: Frame, answer: Any, *_: Any) -> None:
    """B1: the canary."""
    append(self, frame, lambda status, detail: None)
    answer(Status.OK, "")


# --- the bookie's storage ---------------------------------------------------------------------------


@around(Bookie, "fence", within=400, known=72)
async def fences_before_the_sync(fence: Real, self: Bookie, ledger_id: int, verifier: bytes = b"") -> Any:
    """R1"""
    if self._loop.time() % 1.0 < 0.5:
        self._loop.create_task(fence(self, ledger_id, verifier))
        return Status.OK, ""
    return await fence(self, ledger_id, verifier)


@instead_of(Checkpointer, "changed", within=400, known=0)
def forgets_states_at_a_checkpoint(self: Checkpointer, ledger_id: int, position: int) -> None:
    """Fences and last-add-confirmed are gone after a restart, once the log's place is passed."""
    self._applied_at = position


@around(BookieCore, "append", within=400, known=1)
def takes_writers_entries_behind_a_fence(append: Real, self: BookieCore, frame: Frame, ticket: object) -> Any:
    return append(self, frame._replace(recovery=True), ticket)


# --- upkeep -----------------------------------------------------------------------------------------


@bug(within=400, known=0)
def collects_what_is_still_here(patch: Patch) -> None:
    """B3: every closed ledger is taken for one that is placed elsewhere."""
    patch.setattr(Collector, "_is_elsewhere", lambda self, record: record.is_closed)
    patch.setattr(
        Collector, "_misplaced", lambda self, record: list(self._bookie.index.places(record.ledger_id))
    )


@around(ClusterPeers, "entries", within=400, known=10)
async def peers_leave_out_a_page(
    entries: Real, self: ClusterPeers, record: LedgerRecord, first: int, last: int, *, without: Any
) -> Any:
    is_first = True
    async for page in entries(self, record, first, last, without=without):
        if not is_first or len(page) == 1:
            yield page
        else:
            yield page.cut(1, len(page))
        is_first = False


@instead_of(ClusterPeers, "close", within=400, known=10)
async def leaves_its_peers_connected(self: ClusterPeers) -> None:
    return None


@instead_of(Schedule, "due", within=400, known=17)
def is_never_due(self: Schedule, now: Any, space_is_low: Any) -> None:
    """What was deleted is never collected."""
