"""Bugs planted in the bookie's process: daemon, life, listener, registration, service, storage, upkeep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bookie.serving import daemon
from bookie.serving.directory import LockedDirectory
from bookie.serving.history.directory_generation import Lives
from bookie.serving.listener import Listener
from bookie.serving.registration import Registrar
from bookie.storage.bookie import Bookie
from bookie.storage.checkpointing import Checkpointer
from bookie.storage.core import BookieCore
from bookie.upkeep.collecting.collector import Collector
from bookie.upkeep.schedule import Schedule
from bookie.wire import Frame, Status
from ledgers.recovering.peers import ClusterPeers
from metadata.records.ledger_record import LedgerRecord

Patch = pytest.MonkeyPatch


# --- daemon, life -----------------------------------------------------------------------------------


def serves_without_vouching(patch: Patch) -> None:
    """A bookie that has lost some of its log serves as if nothing were missing (R6)."""

    async def broken(bookie: Bookie, lived: Lives) -> None:
        bookie.has_lost = False

    patch.setattr(daemon, "_vouch_for_nothing_lost", broken)


def takes_an_older_copy_for_the_newest(patch: Patch) -> None:
    patch.setattr(Lives, "is_older_copy", lambda self, position: False)


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


def answers_before_the_sync(patch: Patch) -> None:
    """B1: the canary."""
    append = Bookie.append

    def broken(self: Bookie, frame: Frame, answer: Any, *_: Any) -> None:
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


def takes_writers_entries_behind_a_fence(patch: Patch) -> None:
    append = BookieCore.append

    def broken(self: BookieCore, frame: Frame, ticket: object) -> Any:
        return append(self, frame._replace(recovery=True), ticket)

    patch.setattr(BookieCore, "append", broken)


# --- upkeep -----------------------------------------------------------------------------------------


def collects_what_is_still_here(patch: Patch) -> None:
    """B3: every closed ledger is taken for one that is placed elsewhere."""
    patch.setattr(Collector, "_is_elsewhere", lambda self, record: record.is_closed)
    patch.setattr(
        Collector, "_misplaced", lambda self, record: list(self._bookie.index.places(record.ledger_id))
    )


def peers_leave_out_a_page(patch: Patch) -> None:
    entries = ClusterPeers.entries

    async def broken(self: ClusterPeers, record: LedgerRecord, first: int, last: int, *, without: Any) -> Any:
        is_first = True
        async for page in entries(self, record, first, last, without=without):
            if not is_first or len(page) == 1:
                yield page
            else:
                yield page.cut(1, len(page))
            is_first = False

    patch.setattr(ClusterPeers, "entries", broken)


def leaves_its_peers_connected(patch: Patch) -> None:
    async def broken(self: ClusterPeers) -> None:
        return None

    patch.setattr(ClusterPeers, "close", broken)


def is_never_due(patch: Patch) -> None:
    """What was deleted is never collected."""
    patch.setattr(Schedule, "due", lambda self, now, space_is_low: None)
