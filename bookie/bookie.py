"""A bookie's storage at work: the core's effects performed on log, index and waiting requests.

One event loop owns core, ledger states and the recent part of the index; the log's thread writes
and syncs; read threads read. Everything accepted and not yet on disk is bounded in bytes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .checkpointing import Checkpointer
from .config import BookieConfig
from .core import Answer, BookieCore, Effect, Write, remember
from .disk import Disk
from .errors import LogFailed
from .index import Index, place_of_frame
from .lac_waiters import LacWaiters
from .ledger_state import LedgerState
from .log import segments
from .log.format import Record, position_of
from .log.replay import position_end, replay
from .log.writer import LogWriter, Written
from .reading import PLACES_PER_PAGE_MAX, EntryPage, SegmentFiles, read_page
from .space import SpaceLimit
from .space_guard import SpaceGuard
from .wire.messages import Frame, LacReply, LacRequest, ReadReply, ReadRequest, Status

log = logging.getLogger(__name__)

OnAnswer = Callable[[Status, str], None]


@dataclass(slots=True, eq=False)
class _Ticket:
    """A request that waits for the disk: how to answer it, and what it holds of the queue's bytes."""

    answer: OnAnswer
    log_bytes: int = 0
    is_answered: bool = False


@dataclass(slots=True)
class Counters:
    """What a bookie has done since it started."""

    entries_added: int = 0
    bytes_added: int = 0


class Bookie:
    """Stores and serves entries. Open with `Bookie.open`; belongs to the running event loop.

    `failed` completes with LogFailed when the log can no longer be written: nothing is
    acknowledged from then on, and the process must end (rule B1).
    """

    def __init__(self, config: BookieConfig, disk: Disk, index: Index, incarnation: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.incarnation = incarnation
        self.failed: asyncio.Future[LogFailed] = self._loop.create_future()
        self.counters = Counters()
        self._config = config
        self._index = index
        self._files = SegmentFiles(disk)
        self._ledgers: dict[int, LedgerState] = {}
        self._core = BookieCore(self._state_of)
        self._readers = ThreadPoolExecutor(config.read_threads, thread_name_prefix="bookie-read")
        self._queued_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._lac_waiters = LacWaiters(lambda ledger_id: self._peek(ledger_id).last_add_confirmed)
        limit = SpaceLimit(config.disk_free_share_min, config.disk_free_bytes_min)
        self.space = SpaceGuard(
            config.data_directory, limit, config.disk_reserve_bytes, config.disk_check_seconds
        )
        self._checkpointer = Checkpointer(config, index, self._ledger_row, self.space.is_low)
        self._log: LogWriter

    def _begin_log(self, disk: Disk) -> None:
        """Applies the log behind the checkpoint, and makes its writer. Nobody else uses this bookie yet."""
        position = self._replay(disk)
        self._log = LogWriter(
            disk,
            self.incarnation,
            position >> 32,
            on_durable=self._from_log_thread(self._on_durable),
            on_refused=self._from_log_thread(self._on_refused),
            on_failure=self._from_log_thread(self._on_failure),
            on_written=self._from_log_thread(self._on_written),
            reserve=self.space.reserve,
        )

    @classmethod
    async def open(cls, config: BookieConfig, disk: Disk, index: Index, incarnation: str) -> Bookie:
        """Reads the log's tail, brings the index up to it, and starts the log's thread.

        Raises DamagedLog where what was once on disk cannot be read.
        """
        bookie = cls(config, disk, index, incarnation)
        reading = bookie._loop.run_in_executor(None, bookie._begin_log, disk)  # the lease is kept meanwhile
        try:
            await asyncio.shield(reading)
        finally:
            await asyncio.wait([reading])  # cancelled or not: it must not outlive the directory's lock
        await bookie._checkpointer.run_if_there_is_room()
        await bookie.space.look()
        bookie._log.start()
        return bookie

    async def close(self) -> None:
        """Finishes what is accepted, syncs, checkpoints, and lets go of files and threads."""
        await self._loop.run_in_executor(None, self._log.stop)
        await asyncio.sleep(0)  # the log thread's last reports are already in the loop's queue
        if not self.failed.done():
            await self._checkpointer.run_if_there_is_room()
        await self._checkpointer.close()
        self._readers.shutdown()
        self._files.close()
        self._index.close()

    # --- requests ---------------------------------------------------------------------------

    async def room(self) -> None:
        """Returns when the log's queue takes more; callers read nothing from the network before."""
        while not self._room.is_set():
            await self._room.wait()

    def knows_verifier(self, ledger_id: int) -> bool:
        """Whether it is known who may write to the ledger; a ledger nobody asked for is not remembered."""
        return self._peek(ledger_id).verifier is not None

    def learn_verifier(self, ledger_id: int, verifier: bytes) -> None:
        """The metadata says who may write to the ledger."""
        self._state_of(ledger_id).admits(verifier)

    def append(self, frame: Frame, answer: OnAnswer) -> None:
        """Stores a frame; `answer` is called once, with OK when it is on disk (rule B1).

        After the log has failed, what waits is never answered, and what comes is refused.
        """
        if self.failed.done():
            answer(Status.IO_ERROR, str(self.failed.result()))
            return
        self._perform(self._core.append(frame, _Ticket(answer)))

    async def fence(self, ledger_id: int, verifier: bytes = b"") -> tuple[Status, str]:
        """Fences the ledger; returns OK when the fence is on disk (rule R1)."""
        if self.failed.done():
            return Status.IO_ERROR, str(self.failed.result())
        decided: asyncio.Future[tuple[Status, str]] = self._loop.create_future()

        def answer(status: Status, detail: str) -> None:
            if not decided.done():
                decided.set_result((status, detail))

        self._perform(self._core.fence(ledger_id, _Ticket(answer), verifier))
        return await decided

    async def read(self, request: ReadRequest) -> ReadReply:
        """One page. With `fence`, answers only behind a durable fence (rules R1, R3)."""
        if not 0 <= request.first_entry <= request.last_entry or request.ledger_id < 0:
            detail = f"entries {request.first_entry} to {request.last_entry} are no range"
            return ReadReply(Status.BAD_REQUEST, detail=detail)
        if request.fence:
            status, detail = await self.fence(request.ledger_id, request.credential.verifier)
            if status is not Status.OK:
                return ReadReply(status, detail=detail)
        state = self._peek(request.ledger_id)
        page = await self._read_page(request)
        if page.covered_through < request.first_entry:
            return ReadReply(Status.IO_ERROR, detail="too many copies of one entry in the log")
        return ReadReply(
            Status.OK if state.known else Status.NO_SUCH_LEDGER,
            page.columns,
            page.covered_through,
            page.damaged,
            state.last_add_confirmed,
        )

    async def last_add_confirmed(self, request: LacRequest) -> LacReply:
        """The highest last-add-confirmed on this disk; may fence first, or wait for a later one."""
        if request.fence:
            status, detail = await self.fence(request.ledger_id, request.credential.verifier)
            if status is not Status.OK:
                return LacReply(status, detail=detail)
        if request.wait_ms:
            await self._lac_waiters.wait(request.ledger_id, request.wait_beyond, request.wait_ms / 1000)
        state = self._peek(request.ledger_id)
        return LacReply(Status.OK if state.known else Status.NO_SUCH_LEDGER, state.last_add_confirmed)

    def end_waits(self) -> None:
        """Answers everybody who waits for a last-add-confirmed with the present one, now and from now on."""
        self._lac_waiters.end()

    async def run_checkpoints(self) -> None:
        """Keeps the index close to the log until cancelled; raises when the index cannot be written."""
        await self._checkpointer.run_when_due()

    async def watch_space(self, on_change: Callable[[bool], None]) -> None:
        """Keeps the bookie read-only while its disk is full, until cancelled; tells each time it changes."""

        def changed() -> None:
            self._core.read_only = self.space.why_read_only
            on_change(bool(self.space.why_read_only))

        self.space.on_change = changed
        changed()
        await self.space.run()

    @property
    def syncs(self) -> int:
        return self._log.syncs

    # --- how ---------------------------------------------------------------------------------

    def _state_of(self, ledger_id: int) -> LedgerState:
        state = self._ledgers.get(ledger_id)
        if state is None:
            state = self._index.ledger(ledger_id) or LedgerState(ledger_id)
            self._ledgers[ledger_id] = state
        return state

    def _peek(self, ledger_id: int) -> LedgerState:
        """A ledger's state for looking at; what strangers ask for is not kept."""
        return self._ledgers.get(ledger_id) or self._index.ledger(ledger_id) or LedgerState(ledger_id)

    def _ledger_row(self, ledger_id: int) -> bytes:
        return self._ledgers[ledger_id].encode()

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            ticket = effect.ticket
            assert isinstance(ticket, _Ticket)
            match effect:
                case Write(record, deferred_sync=deferred_sync):
                    ticket.log_bytes = self._log.submit(record, ticket, deferred_sync=deferred_sync)
                    self._queued_bytes += ticket.log_bytes
                    if self._queued_bytes >= self._config.log_queue_bytes_max:
                        self._room.clear()
                case Answer(_, status, detail):
                    ticket.answer(status, detail)

    def _from_log_thread(self, callback: Callable[..., None]) -> Callable[..., None]:
        def report(*arguments: object) -> None:
            self._loop.call_soon_threadsafe(callback, *arguments)

        return report

    def _on_durable(self, written: Sequence[Written], next_position: int) -> None:
        for item in written:
            self._note(item.record, item.position, item.size)
            self._perform(self._core.on_disk(item.record, self._release(item.ticket)))
            if item.record.last_add_confirmed is not None:
                self._lac_waiters.wake(item.record.ledger_id)
        self._checkpointer.log_grew(next_position, sum(item.size for item in written))

    def _on_written(self, written: Sequence[Written]) -> None:
        for item in written:
            self._perform(self._core.written(self._release(item.ticket)))

    def _note(self, record: Record, position: int, size: int) -> None:
        """What every durable record changes besides its ledger's state, live and in replay."""
        self._checkpointer.changed(record.ledger_id)
        columns = record.columns
        place = place_of_frame(columns, position, size)
        if columns is not None and place is not None:
            self._index.add(record.ledger_id, place)
            self.counters.entries_added += len(columns)
            self.counters.bytes_added += len(columns.payload)

    def _on_refused(self, refused: Sequence[tuple[object, Record]], error: OSError) -> None:
        for ticket, _ in refused:
            self._release(ticket)
        self._perform(self._core.refused(refused, f"the bookie's disk takes no more: {error.strerror}"))
        self.space.filled_up()

    def _on_failure(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(LogFailed(f"the log could not be written or synced: {error}"))

    def _release(self, ticket: object) -> _Ticket | None:
        """Gives back the queue's bytes; the ticket, unless that was done before and it has its answer."""
        assert isinstance(ticket, _Ticket)
        if ticket.is_answered:
            return None
        ticket.is_answered = True
        self._queued_bytes -= ticket.log_bytes
        if self._queued_bytes < self._config.log_queue_bytes_max:
            self._room.set()
        return ticket

    def _replay(self, disk: Disk) -> int:
        """Applies the log behind the checkpoint; returns the position of the segment to write next."""
        position = self._index.checkpoint_position
        for found in replay(disk, self.incarnation, position):
            remember(self._state_of(found.record.ledger_id), found.record)
            self._note(found.record, found.position, found.header.record_bytes)
            position = position_end(found)
        self.counters = Counters()
        numbers = segments.numbers(disk)
        if not numbers:
            return position_of(0, 0)
        following = numbers[-1] if segments.is_empty(disk, numbers[-1]) else numbers[-1] + 1
        self._checkpointer.log_grew(max(position, position_of(following, 0)), 0)
        return position_of(following, 0)

    async def _read_page(self, request: ReadRequest) -> EntryPage:
        ledger_id, first, last = request.ledger_id, request.first_entry, request.last_entry
        recent = self._index.recent_holding(ledger_id, first, last)

        def read() -> EntryPage:
            places = self._index.holding(ledger_id, first, last, recent, PLACES_PER_PAGE_MAX)
            return read_page(self._files, places, ledger_id, first, last, request.bytes_max)

        return await self._loop.run_in_executor(self._readers, read)
