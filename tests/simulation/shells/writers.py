"""Applications that write: in all the ways there are, with appends given up and clients closed in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ledgers.aio import AdvancedWriteHandle, WriteHandle
from ledgers.errors import LedgerError
from tests.simulation.engine.world import Violation

from .actors import CREATE_TRIES_MAX, OPERATION_SECONDS_MAX, Actor, Cancelled
from .adapters import call_on_progress, writer_of

BIG_ENTRY_BYTES = 300_000
CLOSES_CANCELLED_SHARE = 0.4
"""Closing is quick: most of these are done before they are cancelled."""


@dataclass(slots=True)
class _Appended:
    """One append the application knows of."""

    payload: bytes
    future: asyncio.Future[int]

    @property
    def is_confirmed(self) -> bool:
        """As far as its application knows, which may have lost interest in it."""
        return self.future.done() and (self.future.cancelled() or self.future.exception() is None)


class Writer(Actor):
    """Creates a ledger, appends to it in all the ways there are, and closes it, or abandons it, or just leaves."""

    has_big_entries = True
    deferred_sync = False
    STEPS: Sequence[str] = ("append", "append", "burst", "burst", "flush", "drop", "rest")

    async def run(self) -> None:
        handle = await self._create()
        if handle is None:
            return self.setting.board.tell(self.name, None)
        self._begin(handle)
        self.setting.board.tell(self.name, handle.ledger_id)
        for _ in range(4 + self.chance.below(20)):
            if self.has_left or writer_of(handle).has_ended:
                break
            await self._step(handle, self.chance.choice(self.STEPS))
            await self.pause()
        return await self._end(handle)

    async def write_one_ledger(self) -> None:
        """Creates, appends, closes, all of which must succeed at once."""
        made = await self.attempt("create", self.create(), may_cancel=False)
        if not isinstance(made, WriteHandle):
            raise Violation("liveness", f"{self.name}: no ledger: {made!r}")
        self._begin(made)
        appended = await self.attempt("append", made.append(self.payload()), may_cancel=False)
        closed = await self.attempt("close", made.close(), may_cancel=False)
        if appended != 0 or closed is not None:
            raise Violation("liveness", f"{self.name}: append {appended!r}, close {closed!r}")

    def _begin(self, handle: Any) -> None:
        self.watched = self.setting.watch[handle.ledger_id]
        self.appended: list[_Appended] = []
        self._payloads = 0
        call_on_progress(writer_of(handle), lambda: self._watch_progress(handle))

    async def _create(self) -> Any:
        for _ in range(CREATE_TRIES_MAX):
            if self.has_left:
                return None
            made = await self.attempt("create", self.create())
            if not isinstance(made, LedgerError | Cancelled):
                return made
            await self.pause()
        return None

    async def create(self) -> Any:
        new = self.setting.new_ledger
        return await self.client.create_ledger(
            ensemble_size=new.ensemble_size,
            write_quorum=new.write_quorum,
            ack_quorum=new.ack_quorum,
            digest=new.digest,
            password=new.password,
            deferred_sync=self.deferred_sync,
        )

    def payload(self) -> bytes:
        """No two are the same, so that an entry in another's place is seen."""
        self._payloads += 1
        is_big = self.has_big_entries and self.setting.has_big_entries and self.chance.happens(0.5)
        size = BIG_ENTRY_BYTES if is_big else 1
        return f"{self.name} {self._payloads} ".encode() + b"x" * self.chance.below(size)

    async def _step(self, handle: Any, step: str) -> None:
        match step:
            case "append":
                await self._append(handle)
            case "burst":
                for _ in range(1 + self.chance.below(5)):
                    await self._append_async(handle)
            case "flush":
                await self._flush(handle)
            case "drop":
                self._drop()

    async def _append(self, handle: WriteHandle) -> None:
        payload = self.payload()
        entry_id = await self.attempt("append", handle.append(payload))
        if isinstance(entry_id, int):
            self.answered(entry_id, payload)

    def answered(self, entry_id: int, payload: bytes) -> None:
        """An append returned this id."""
        self.watched.appended_as(self.name, entry_id, payload)

    async def _append_async(self, handle: WriteHandle) -> None:
        payload = self.payload()
        future = await self.attempt("append_async", handle.append_async(payload))
        if isinstance(future, asyncio.Future):
            self.keep(payload, future)

    def keep(self, payload: bytes, future: asyncio.Future[int], entry_id: int | None = None) -> None:
        """Watches over an append; `entry_id` where the application chose it."""
        self.appended.append(_Appended(payload, future))
        future.add_done_callback(lambda done: self._completed(payload, done, entry_id))

    def _completed(self, payload: bytes, future: asyncio.Future[int], entry_id: int | None) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self.expected("an append", error)
        else:
            self.answered(future.result(), payload)
            if entry_id not in (None, future.result()):
                raise Violation("ids", f"{self.name}'s entry {entry_id} was answered as {future.result()}")

    def _watch_progress(self, handle: Any) -> None:
        self.note("confirms %s", handle.last_add_confirmed)
        try:
            self.watched.confirmed(handle.last_add_confirmed)
        except Violation as violation:  # the product would take it for a fault of its own stream
            self.setting.site.loop.problems.append(str(violation))

    def _drop(self) -> None:
        """The application loses interest in one append."""
        waiting = [one for one in self.appended if not one.future.done()]
        if waiting:
            self.chance.choice(waiting).future.cancel()

    async def _flush(self, handle: Any) -> None:
        before = self.due_for_flush(handle)
        if await self.attempt("flush", handle.flush()) is None:
            self._must_be_confirmed("flush", before)

    def due_for_flush(self, handle: Any) -> list[_Appended]:
        """Appends that a flush begun now must see confirmed."""
        return list(self.appended)

    def _must_be_confirmed(self, what: str, appends: list[_Appended]) -> None:
        left = [one for one in appends if not one.is_confirmed]
        if left:
            raise Violation(
                "flush", f"{self.name}: {what} returned before {left[0].payload[:20]!r} was confirmed"
            )

    # --- the end ------------------------------------------------------------------------------------

    async def _end(self, handle: Any) -> None:
        how = self.chance.choice(("close", "close", "abandon", "vanish", "leave"))
        self.note("ends by %s", how)
        match how:
            case "close":
                await self._close(handle)
            case "abandon":
                await self.attempt("abandon", writer_of(handle).abandon(), may_cancel=False)
            case "leave":
                await self.leave()
            case "vanish":
                await self._await_calm()
        await self._every_append_is_answered()

    async def _close(self, handle: Any) -> None:
        if self.chance.happens(0.5) and not writer_of(handle).has_ended:
            await self._append_async(handle)
        due = self.due_for_flush(handle)
        closed = await self.attempt("close", handle.close(), cancels_share=CLOSES_CANCELLED_SHARE)
        if isinstance(closed, Cancelled) and not self.has_left:
            closed = await self.attempt("close again", handle.close(), may_cancel=False)
        if closed is None:
            self._must_be_confirmed("close", due)
            self.watched.ended(self.name, handle.record)

    async def _await_calm(self) -> None:
        """Its process is gone as far as others can see: it does nothing more."""
        await self.setting.calm.wait()
        await self.leave()

    async def _every_append_is_answered(self) -> None:
        futures = [one.future for one in self.appended if not one.future.done()]
        if futures:
            await asyncio.wait(futures, timeout=OPERATION_SECONDS_MAX)
        left = [one for one in self.appended if not one.future.done()]
        if left:
            raise Violation("liveness", f"{self.name}: {len(left)} appends are never answered")


class AdvancedWriter(Writer):
    """Chooses its entry ids, out of order, and leaves a gap at times.

    Its entries are small: one application that waits for room can fill no gap.
    """

    has_big_entries = False

    async def create(self) -> AdvancedWriteHandle:
        return await self.client.create_ledger_adv(self.setting.new_ledger)

    async def run(self) -> None:
        self._ids = self._order()
        await super().run()

    def _order(self) -> list[int]:
        """The next ids, last first: each a little before or behind its turn."""
        placed = [(n + self.chance.unit() * 4, n) for n in range(60)]
        if self.chance.happens(0.2):
            del placed[self.chance.below(10)]
        return [n for _, n in sorted(placed, reverse=True)]

    async def _append(self, handle: Any) -> None:
        await self._append_async(handle)

    async def _append_async(self, handle: Any) -> None:
        entry_id, payload = self._ids.pop(), self.payload()
        future = await self.attempt("append_as", handle.append_async(entry_id, payload), may_cancel=False)
        if isinstance(future, asyncio.Future):
            self.keep(payload, future, entry_id)

    def due_for_flush(self, handle: AdvancedWriteHandle) -> list[_Appended]:
        return []  # what stands behind a gap is not waited for


class DeferredWriter(Writer):
    """With deferred sync: an append is answered when it is in the logs, and forced to disk at times."""

    deferred_sync = True
    STEPS = ("append", "burst", "burst", "flush", "force", "rest")

    async def _step(self, handle: Any, step: str) -> None:
        if step == "force":
            due = list(self.appended)
            if await self.attempt("force", handle.force()) is None:
                self._must_be_on_disk(due)
        else:
            await super()._step(handle, step)

    async def _append(self, handle: WriteHandle) -> None:
        await self._append_async(handle)

    def answered(self, entry_id: int, payload: bytes) -> None:
        """In the logs of an ack quorum; a crash may still take it away."""

    async def _close(self, handle: Any) -> None:
        await super()._close(handle)
        if handle.record.is_closed:
            self._must_be_on_disk(self.appended)

    def _must_be_on_disk(self, appends: list[_Appended]) -> None:
        for one in appends:
            if one.future.done() and not one.future.cancelled() and one.future.exception() is None:
                self.watched.appended_as(self.name, one.future.result(), one.payload)
