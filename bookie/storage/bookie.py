"""A bookie's storage engine: applies the core's effects to the log, the index and waiting requests.

The event loop owns the core, the ledger states and the recent part of the index. The log thread writes and syncs; read
threads read. The number of bytes accepted but not yet on disk is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from metadata.records.ledger_record import LedgerRecord, Tombstone
from metadata.records.ledger_store import VersionedRecord

from ..config import BookieConfig
from ..disk.disk import Disk
from ..disk.space import SpaceLimit
from ..disk.space_guard import SpaceGuard
from ..errors import DirectoryLost, DiskIsFull, LogFailed
from ..index.claims import check_log
from ..index.frame_locations import FrameLocation
from ..index.index import Index
from ..log import segment_files
from ..log.format import NO_LEDGER, BookieLogRecord
from ..log.group_commit import BookieLogWriter, Written
from ..uncancellable import uncancellable
from ..wire.messages import (
    NO_IDENTITY,
    EntryRange,
    Frame,
    HoldingsReply,
    HoldingsRequest,
    LacReply,
    LacRequest,
    ReadReply,
    ReadRequest,
    Status,
)
from .checkpointing import Checkpointer
from .core import Answer, BookieCore, Effect, Write, state_record
from .identity_check import IdentityCheck
from .intake_queue import NO_ARRIVAL, Arrival, Intake, OnAnswer, Ticket
from .lac_waiters import LacWaiters
from .ledger_states import IN_LIMBO, LedgerStates
from .page_reader import PageReader
from .replaying import LogReplayResult, replay_log
from .reply_batch import ReplyBatch, set_once
from .storage_metrics import BookieMetrics
from .stored_frames import SegmentFiles


class Bookie:
    """Stores and serves entries. Open it with `Bookie.open`; it belongs to the running event loop.

    `failed` completes with LogFailed when the log can no longer be written. From then on nothing is acknowledged, and
    the process must end (rule B1).
    """

    def __init__(self, config: BookieConfig, disk: Disk, index: Index, incarnation: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._config, self.incarnation = config, incarnation
        self.failed: asyncio.Future[LogFailed] = self._loop.create_future()
        self.metrics = BookieMetrics(config.slow_append_seconds)
        self.index, self.disk, self.files = index, disk, SegmentFiles(disk)
        self.states = LedgerStates(index, lambda ledger_id: self._checkpointer.is_dirty(ledger_id))
        self.is_fenced = self.states.is_fenced
        self._core = BookieCore(self.states.hold)
        self._reader = PageReader(index, self.files, config.read_threads)
        self.answers = ReplyBatch()
        self._identity_check = IdentityCheck(self.states.peek, self._loop.time)
        self.intake = Intake(config.log_queue_bytes_max)
        self._lac_waiters = LacWaiters(lambda ledger_id: self.states.peek(ledger_id).last_add_confirmed)
        limit = SpaceLimit(config.disk_free_share_min, config.disk_free_bytes_min)
        self.space = SpaceGuard(
            config.data_directory, limit, config.disk_reserve_bytes, config.disk_check_seconds
        )
        self._checkpointer = Checkpointer(
            config,
            index,
            self.states.row,
            self.space.is_low,
            self.states.shrink,
            self.space.reserve.release,
        )
        self._log: BookieLogWriter
        self.replayed = LogReplayResult()
        self.has_lost = index.limbo_is_due
        """Whether the log lost an unknown part, so that every ledger may be affected (rule R6)."""

    def _begin_log(self, disk: Disk, is_lacking: Callable[[int], bool]) -> None:
        """Replays the log after the checkpoint and creates its writer. Nothing else may use this bookie yet."""
        check_log(disk, self.index)
        self.replayed = replay_log(disk, self.incarnation, self.index, self.states, self._note)
        self._checkpointer.log_grew(self.replayed.served_through, 0)
        # Whether anything was lost must be determined before the bookie writes anything.
        self.has_lost = self.has_lost or self.replayed.has_lost or is_lacking(self.replayed.log_end)
        if self.has_lost:  # must be durable before a checkpoint moves past this position
            self.index.set_limbo_due(True)
        self._log = BookieLogWriter(
            disk,
            self.incarnation,
            self.replayed.next_segment,
            on_durable=self._from_log_thread(self._on_durable),
            on_refused=self._from_log_thread(self._on_refused),
            on_failure=self._from_log_thread(self.fail),
            on_written=self._from_log_thread(self._on_written),
            on_sync=self.metrics.synced,
            reserve=self.space.reserve,
            segment_bytes_max=self._config.segment_bytes_max,
        )

    @classmethod
    async def open(
        cls,
        config: BookieConfig,
        disk: Disk,
        index: Index,
        incarnation: str,
        is_lacking: Callable[[int], bool] = lambda _: False,
    ) -> Bookie:
        """Replays the log's tail into the index, and starts the log thread.

        `is_lacking` takes the log's end and returns whether anything after it has been lost; it may raise. Raises
        DamagedLog if bytes that were once on disk cannot be read.
        """
        bookie = cls(config, disk, index, incarnation)
        # Not cancellable, because the lease is renewed while this runs, and must not outlive the directory's lock.
        await uncancellable(
            bookie._loop.run_in_executor(None, copy_context().run, bookie._begin_log, disk, is_lacking)
        )
        await bookie._checkpointer.run_if_there_is_room()
        await bookie.space.look()
        bookie._log.start()
        return bookie

    async def close(self) -> None:
        """Finishes accepted requests, syncs, checkpoints, and closes files and threads."""
        await uncancellable(self._loop.run_in_executor(None, self._log.stop))
        await asyncio.sleep(0)  # the log thread's last reports are already in the loop's queue
        if not self.failed.done() and not self._checkpointer.has_failed:
            await self._checkpointer.run_if_there_is_room()
        await self._checkpointer.close()
        self._reader.close()
        self.index.close()

    # --- requests ---------------------------------------------------------------------------

    def verifier_of(self, ledger_id: int) -> bytes | None:
        """Returns the ledger's verifier, or None if unknown. Does not cache the state of an unknown ledger."""
        return self.states.peek(ledger_id).verifier

    def readers_verifier(self, ledger_id: int) -> bytes:
        """Returns the verifier that readers must prove; b"" if anyone may read."""
        return self.states.peek(ledger_id).readers_verifier

    def learn(self, record: LedgerRecord) -> None:
        """Adopts the verifier and the identity from the ledger's record, unless they are already known."""
        self.states.hold(record.ledger_id).learn(record.verifier, record.identity)

    def holds_another(self, ledger: LedgerRecord | VersionedRecord | Tombstone) -> bool:
        """Returns whether the bookie holds a different ledger under this id (rule W8)."""
        return self.states.peek(ledger.ledger_id).is_another(ledger.identity)

    def append(self, frame: Frame, answer: OnAnswer, arrival: Arrival | None = None) -> None:
        """Stores a frame, and calls `answer` once, with OK as soon as the frame is on disk (rule B1). An `arrival` of
        None means now.

        After the log has failed, waiting requests get no answer, and new ones are refused.
        """
        if self.failed.done():
            answer(Status.IO_ERROR, str(self.failed.result()))
            return
        ticket = Ticket(answer, arrival or Arrival(self._loop.time()))
        self._perform(self._core.append(frame, ticket, ticket.arrival.address))

    def append_note(self, frame: Frame) -> None:
        """Stores the note contained in a frame, if the bookie holds the ledger. The log writes the note without a
        separate sync."""
        if not self.failed.done():
            self._perform(self._core.append_note(frame))

    async def store(self, records: Sequence[BookieLogRecord]) -> None:
        """Appends records that the bookie itself made; they are on disk when it returns.

        Raises LogFailed. Raises DiskIsFull if the disk has no space for some of the records; the preceding ones may
        have been stored.
        """
        if self.failed.done():
            raise self.failed.result()
        answers: list[asyncio.Future[tuple[Status, str]]] = []
        for record in records:
            answers.append(self._loop.create_future())
            self.intake.submit(
                self._log, record, Ticket(partial(set_once, answers[-1]), NO_ARRIVAL, is_ours=True)
            )
        for answered in answers:
            waiting: list[asyncio.Future[Any]] = [answered, self.failed]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                raise self.failed.result()
        for status, detail in (answered.result() for answered in answers):
            if status is not Status.OK:
                raise DiskIsFull(detail)

    async def forget(self, ledger_ids: Collection[int]) -> None:
        """Deletes all data of these ledgers. A later request for one of them looks up the ledger's verifier again."""
        self.states.forget(ledger_ids)  # admit no further frames of these ledgers
        await self.intake.settled(self.failed)  # apply the admitted frames first, or they would reappear
        if ledger_ids and self._checkpointer.is_behind:
            # Otherwise a restart would find the forgotten ledgers' records after the checkpoint.
            await self.store([state_record(self.states.peek(min(ledger_ids)))])
        await self.checkpoint()
        self.states.forget(ledger_ids)
        await self._checkpointer.apart(self.index.forget, ledger_ids)

    async def drop(self, frames: Sequence[tuple[int, FrameLocation]]) -> None:
        """Drops these frames from the index, which must have held them since its last checkpoint."""
        await self._checkpointer.apart(self.index.drop, frames)

    async def remove_segments(self, numbers: Collection[int]) -> None:
        """Deletes segments that the index no longer points to, after durably removing them from the log's manifest."""
        await self._checkpointer.apart(self.index.clear_usage, numbers)
        try:
            await uncancellable(self._loop.run_in_executor(None, segment_files.remove, self.disk, numbers))
        finally:
            self.files.forget(numbers)  # last, so that no reader opens them again

    async def leave_loss_behind(self) -> None:
        """Marks the log's loss as handled. Every ledger that the loss may affect must already be in limbo on disk."""
        await self._checkpointer.run_now()
        await self._checkpointer.apart(self.index.set_limbo_due, False)
        self.has_lost = False

    async def checkpoint(self) -> None:
        """Brings the index up to the current end of the log. Raises IndexUnusable."""
        await self._checkpointer.run_for_space()

    async def fence(
        self, ledger_id: int, verifier: bytes = b"", identity: bytes = NO_IDENTITY
    ) -> tuple[Status, str]:
        """Fences the ledger; returns OK when the fence is on disk (rule R1)."""
        if self.failed.done():
            return Status.IO_ERROR, str(self.failed.result())
        decided: asyncio.Future[tuple[Status, str]] = self._loop.create_future()
        ticket = Ticket(partial(set_once, decided), NO_ARRIVAL)
        self._perform(self._core.fence(ledger_id, ticket, verifier, identity))
        return await decided

    async def read(self, request: ReadRequest) -> ReadReply:
        """Reads one page. With `fence`, answers only after a durable fence (rules R1, R3)."""
        if not 0 <= request.first_entry <= request.last_entry or request.ledger_id < 0:
            detail = f"entries {request.first_entry} to {request.last_entry} are not a range"
            return ReadReply(Status.BAD_REQUEST, detail=detail)
        status, detail = await self._fence(request) if request.fence else (Status.OK, "")
        if status is not Status.OK:
            return ReadReply(status, detail=detail)
        state, began = self.states.peek(request.ledger_id), self._loop.time()
        page = await self._reader.read(request)
        if why := self._identity_check.why(
            request
        ):  # checked after the read, because another ledger's first frame may have arrived during it
            return ReadReply(Status.WRONG_IDENTITY, detail=why)
        if page.covered_through < request.first_entry:
            return ReadReply(Status.IO_ERROR, detail="too many copies of one entry in the log")
        if state.limbo:  # absent entries may have been lost (rule R6)
            page = replace(page, damaged=(EntryRange(request.first_entry, page.covered_through),))
        status = Status.OK if state.known or state.limbo else Status.NO_SUCH_LEDGER
        lac, detail = state.last_add_confirmed, page.why_unread
        reply = ReadReply(status, page.columns, page.covered_through, page.damaged, lac, detail)
        self.metrics.read(reply, self._loop.time() - began)
        return reply

    async def holdings(self, request: HoldingsRequest) -> HoldingsReply:
        """Returns the extents of a ledger on this disk, excluding absent or damaged entries."""
        if not 0 <= request.first_entry <= request.last_entry or request.ledger_id < 0:
            detail = f"entries {request.first_entry} to {request.last_entry} are not a range"
            return HoldingsReply(Status.BAD_REQUEST, detail=detail)
        held = await self._reader.holdings(request, self.states.peek(request.ledger_id))
        if why := self._identity_check.why(request):
            return HoldingsReply(Status.WRONG_IDENTITY, detail=why)
        return HoldingsReply(Status.OK, *held)

    async def last_add_confirmed(
        self, request: LacRequest, hurried: asyncio.Future[None] | None = None
    ) -> LacReply:
        """Returns the highest last-add-confirmed on this disk. May fence first, or long-poll for a later one until
        `hurried` is done."""
        if request.fence:
            status, detail = await self._fence(request)
            if status is not Status.OK:
                return LacReply(status, detail=detail)
        ledger_id = request.ledger_id
        if request.wait_ms and not self.states.peek(ledger_id).is_another(request.identity):
            await self._lac_waiters.wait(ledger_id, request.wait_beyond, request.wait_ms / 1000, hurried)
        if why := self._identity_check.why(request):
            return LacReply(Status.WRONG_IDENTITY, detail=why)
        state = self.states.peek(ledger_id)
        if state.limbo:
            return LacReply(Status.UNKNOWN, detail=IN_LIMBO)
        status = Status.OK if state.known else Status.NO_SUCH_LEDGER
        return LacReply(status, state.last_add_confirmed, writer_address=state.writer_address)

    def end_waits(self) -> None:
        """Answers all present and future long polls immediately, with the current last-add-confirmed."""
        self._lac_waiters.end()

    async def run_checkpoints(self) -> None:
        """Keeps the index close to the log until cancelled; raises an error if the index cannot be written."""
        await self._checkpointer.run_when_due()

    async def watch_space(self, on_change: Callable[[SpaceGuard], None]) -> None:
        """Keeps the bookie read-only while its disk is full, until cancelled; calls `on_change` on each change."""

        def changed() -> None:
            self._core.read_only = self.space.why_read_only
            on_change(self.space)

        self.space.on_change = changed
        changed()
        await self.space.run()

    @property
    def log_position(self) -> int:
        """The log's end: everything before it is on disk and served."""
        return self._checkpointer.position

    @property
    def syncs(self) -> int:
        return self._log.syncs

    @property
    def log_busy_seconds(self) -> float:
        """How long, in seconds, the log has been writing and syncing its current group; large if the disk hangs."""
        return self._log.busy_seconds

    # --- effects -----------------------------------------------------------------------------

    async def _fence(self, request: ReadRequest | LacRequest) -> tuple[Status, str]:
        return await self.fence(request.ledger_id, request.credential.verifier, request.identity)

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(record, ticket, deferred_sync):
                    self.intake.submit(self._log, record, ticket, deferred_sync=deferred_sync)
                case Answer(ticket, status, detail):
                    assert isinstance(ticket, Ticket)
                    if status is Status.WRONG_IDENTITY:
                        self._identity_check.log_refusal(detail)
                    ticket.answer(status, detail)

    def _from_log_thread(self, callback: Callable[..., None]) -> Callable[..., None]:
        def reported(*arguments: object) -> None:
            if not self.failed.done():
                callback(*arguments)

        def report(*arguments: object) -> None:
            self._loop.call_soon_threadsafe(reported, *arguments)

        return report

    def _on_durable(self, written: Sequence[Written], next_position: int) -> None:
        with self.answers:
            for item in written:
                self._apply(item)
        self.intake.reported(len(written))
        self.metrics.stored(written, self._loop.time())
        self._checkpointer.log_grew(next_position, sum([item.size for item in written]))

    def _on_written(self, written: Sequence[Written]) -> None:
        """Handles records that are written but not yet synced. Those without a ticket are not reported again."""
        for item in written:
            if item.ticket is None:
                self._apply(item)
            else:
                self._perform(self._core.written(self.intake.release(item.ticket, item.size)))
        self.intake.reported(sum(item.ticket is None for item in written))

    def _apply(self, item: Written) -> None:
        record, ticket = item.record, self.intake.release(item.ticket, item.size)
        self._note(record, item.position, item.size)
        if item.ticket is not None:  # a record without a ticket is a note, which changes no state
            self._perform(self._core.on_disk(record, ticket))
        if record.last_add_confirmed is not None:
            self._lac_waiters.wake(record.ledger_id)

    def _note(self, record: BookieLogRecord, position: int, size: int) -> None:
        """Applies a record to the checkpoint state and the index, both in live operation and during replay."""
        if record.ledger_id == NO_LEDGER:
            return
        self._checkpointer.changed(record.ledger_id, position)
        self.index.apply(record, position, size)

    def _on_refused(self, refused: Sequence[tuple[object | None, BookieLogRecord]], error: OSError) -> None:
        self.intake.refused(refused)
        self._perform(
            self._core.refused(refused, f"the bookie's disk accepts no more writes: {error.strerror}")
        )
        self.space.filled_up()

    def fail(self, error: Exception) -> None:
        """Stops acknowledging permanently; the process must end (rule B1)."""
        if not self.failed.done():
            doing = "" if isinstance(error, DirectoryLost) else "the log could not be written or synced: "
            self.failed.set_result(LogFailed(f"{doing}{error}"))
