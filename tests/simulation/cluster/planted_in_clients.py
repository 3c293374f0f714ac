"""Bugs planted in the client: its connections, and the blocking one with its thread."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from ledgers import loop_thread
from ledgers.blocking.write import WriteHandle
from ledgers.bookies.grpc_bookies import GrpcBookieClient
from ledgers.loop_thread import LoopThread

Patch = pytest.MonkeyPatch


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
