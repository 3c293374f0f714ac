"""Writing to a ledger: the append pipeline's shell.

Entries appended while the loop does something else are taken together: one batch, one set of
digests, one step of the machine. Work per entry is one digest and one future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from bookie.wire import ENTRY_BYTES_MAX, LacStatement, of_payloads
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import VersionedRecord

from ..bookie_client import LaneTerms
from ..bookies.lanes import Lanes
from ..bookies.replacements import find_replacements
from ..cluster import Cluster
from ..entry import ENTRY_OVERHEAD_BYTES, check_is_bytes
from ..errors import AppendTimeout, EntryTooLarge, LedgerClosed, LedgerError, LedgerFenced
from ..integrity.digest import Digester
from ..integrity.ledger_keys import LedgerKey
from ..protocol.append import AppendPipeline
from ..protocol.effects import (
    Accept,
    AppendEffect,
    ChangeRecord,
    CloseLane,
    Confirm,
    FindReplacements,
    Finish,
    Force,
    OpenLane,
    RetryLater,
    Send,
)
from ..record_change import RecordVersion
from ..tasks import Tasks
from .answers import Answers, AppendFuture
from .closed_by_others import closed_by_others
from .idle_lac import IdleLac
from .long_wait import told_when_long, why_closing_waits
from .progress import ProgressClock
from .quorum_watch import QuorumWatch
from .waiting import Waiting


class WriteHandle:
    """The one writer of a ledger. Made by `LedgerClient.create_ledger`; belongs to its event loop.

    Appends are confirmed strictly in entry order (rule W2). When the writer fails (`LedgerFenced`,
    `NotEnoughBookies`, …) every unconfirmed append fails with that error, and so do `flush` and
    `close`; such an append may or may not be in the ledger, which opening it with recovery settles.
    """

    def __init__(
        self,
        cluster: Cluster,
        created: VersionedRecord,
        digester: Digester,
        key: LedgerKey,
        *,
        deferred_sync: bool = False,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._config = cluster.config
        self.check_process = cluster.check_process
        self._digester = digester
        self._version = RecordVersion(cluster.ledgers, created, cluster.marks)
        self._deferred_sync = deferred_sync
        self._machine = AppendPipeline(
            created.record,
            deferred_sync=deferred_sync,
            delay_ensemble_change=cluster.config.delay_ensemble_change,
        )
        terms = LaneTerms(self.ledger_id, key, deferred_sync=deferred_sync)
        self._lanes = Lanes(cluster, terms, self, self._lac_statement)
        self._tasks = Tasks(self._background_failed)
        self._waiting = Waiting()
        self._answers = Answers()
        self._tick: asyncio.Handle | None = None
        self._room = asyncio.Event()
        self._finished: asyncio.Future[LedgerError | None] = self._loop.create_future()
        self._closing = False
        self._idle_lac = IdleLac(
            self._config.idle_lac_seconds,
            lambda: self.last_add_confirmed,
            lambda: not (self._finished.done() or self._answers.appends_wait),
            self._lanes.send_lac,
        )
        self._clock = ProgressClock(
            self._config.append_quorum_seconds_max, self._is_waited_for, self._append_timed_out
        )
        self._quorum = QuorumWatch(
            self._config.append_quorum_seconds_max, lambda: self._machine.is_without_quorum, self._give_up
        )
        self.on_progress: Callable[[], None] = lambda: None
        """Called after entries were confirmed or the writer ended; for faces in other threads."""
        self._perform(self._machine.start())

    # --- what an application uses -------------------------------------------------------------

    @property
    def ledger_id(self) -> int:
        return self._machine.record.ledger_id

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as this writer last knew it to stand."""
        return self._machine.record

    @property
    def last_add_confirmed(self) -> int:
        """The last confirmed entry; −1 before the first. Never goes back."""
        return self._machine.last_add_confirmed

    @property
    def has_ended(self) -> bool:
        """Whether this writer takes no more entries: closed, or ended by an error."""
        return self._finished.done()

    @property
    def failure(self) -> LedgerError | None:
        """What ended this writer, if anything but a close did."""
        return self._finished.result() if self._finished.done() else None

    @property
    def pending_bytes(self) -> int:
        """Payload bytes appended and not confirmed, and ENTRY_OVERHEAD_BYTES for each such entry."""
        entries = self._machine.last_add_pushed - self.last_add_confirmed + self._waiting.entries
        payload = self._machine.pending_bytes + self._waiting.bytes
        return payload + ENTRY_OVERHEAD_BYTES * entries

    @property
    def is_behind(self) -> bool:
        """Whether a bookie is behind its bound, and appends ought to wait for it (rule W6)."""
        return self._machine.is_behind

    async def append(self, payload: bytes) -> int:
        """Appends one entry; returns its id when an ack quorum has it on disk (with deferred sync: in its logs).

        Raises EntryTooLarge (the writer goes on), or what ended the writer; then the entry may or
        may not be in the ledger. Waits as `append_async` does.
        """
        return await (await self.append_async(payload))

    async def append_async(self, payload: bytes) -> asyncio.Future[int]:
        """Takes one entry in; returns the future of its id. Ids follow the order of these calls.

        Waits only while `pending_bytes_max` are unconfirmed, or `is_behind`.
        """
        self.check_process()
        while (self.pending_bytes >= self._config.pending_bytes_max or self.is_behind) and not self.has_ended:
            self._room.clear()
            await self._room.wait()
        future: asyncio.Future[int] = self._loop.create_future()
        self.submit(payload, future)
        return future

    def submit(self, payload: bytes, future: AppendFuture) -> None:
        """Takes one entry in whatever is pending; the caller keeps the bound. Raises what is wrong with this call."""
        check_is_bytes(payload)
        if len(payload) > ENTRY_BYTES_MAX:
            raise EntryTooLarge(len(payload), ENTRY_BYTES_MAX)
        self._raise_if_ended()
        self._waiting.add(payload)
        if self._tick is None:
            self._clock.begins()
            self._tick = self._loop.call_soon(self._take_waiting_or_end)
        self._answers.append(future)

    async def flush(self) -> None:
        """Returns when every append so far is answered; raises what ended the writer, if anything did."""
        self.check_process()
        if self._answers.appends_wait:
            flushed: asyncio.Future[int] = self._loop.create_future()
            self._answers.flush(flushed)
            await flushed
        elif self.failure is not None:
            raise self.failure

    async def force(self) -> None:
        """Returns when every append so far is on disk and confirmed; raises what ended the writer, if anything did.

        Without deferred sync that is what `flush` does too.
        """
        self.check_process()
        if self._tick is not None:
            self._tick.cancel()
            self._take_waiting_or_end()
        if self.failure is not None:
            raise self.failure
        if self.last_add_confirmed == self._machine.last_add_pushed:
            return
        forced: asyncio.Future[int] = self._loop.create_future()
        self._clock.begins()
        self._answers.force(self._machine.last_add_pushed, forced)
        self._perform(self._machine.force())
        self._clock.start()
        await forced

    async def close(self) -> None:
        """Flushes, then closes the ledger at its last confirmed entry (rule C1). Closing twice is fine.

        Raises what ended the writer: the ledger is then not closed by this call, and its end is settled by whoever
        opens it with recovery; nothing where that was done already, at the very entry confirmed last.
        """
        self.check_process()
        self._closing = True
        with told_when_long(self._why_closing_waits):
            with suppress(LedgerError):  # what ended the writer is raised below
                await (self.force() if self._deferred_sync else self.flush())
            self._perform(self._machine.close())  # asks once, however often it is called
            error = await asyncio.shield(self._finished)
        await self._let_go()
        if error is not None and not await self._was_closed_by_others(error):
            raise error

    def _why_closing_waits(self) -> str:
        unconfirmed = self._machine.last_add_pushed - self.last_add_confirmed + self._waiting.entries
        return why_closing_waits(self.ledger_id, unconfirmed, self._config.append_quorum_seconds_max)

    async def _was_closed_by_others(self, error: LedgerError) -> bool:
        """An idle writer may meet the fence of a recovery before its close does (rule C1)."""
        if not isinstance(error, LedgerFenced) or self._machine.last_add_pushed > self.last_add_confirmed:
            return False
        closed = await closed_by_others(self._cluster.ledgers, self.ledger_id, self.last_add_confirmed)
        self._machine.record = closed or self._machine.record
        return closed is not None

    async def abandon(self) -> None:
        """Lets go of the ledger without closing it, as a crash would; unconfirmed appends fail."""
        self.check_process()
        self._closing = True
        self._perform(self._machine.fail(LedgerClosed(self.ledger_id, "its writer was abandoned")))
        await self._let_go()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the ledger, also after an error in the block: what was confirmed stays readable."""
        if isinstance(error, LedgerError) and self._finished.done():
            await self._let_go()  # the block already raises what ended the writer
        else:
            await self.close()

    # --- taking entries in ------------------------------------------------------------------------

    def _raise_if_ended(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._closing:
            raise LedgerClosed(self.ledger_id, "this writer was closed")

    def _take_waiting_or_end(self) -> None:
        """A batch that fails half-way would leave futures without their entries: the writer ends instead."""
        try:
            self._take_waiting()
        except Exception as error:
            self._background_failed(error)

    def _take_waiting(self) -> None:
        """One step of the machine for everything that was appended since the last."""
        self._tick = None
        if self._machine.has_ended:
            return
        self._clock.start()
        for batch in self._waiting.batches():
            if self._machine.has_ended:
                break
            first = self._machine.last_add_pushed + 1
            self._perform(self._machine.append(of_payloads(first, batch, self._digester.sign(first, batch))))
        if self._deferred_sync and self.pending_bytes > self._config.pending_bytes_max // 2:
            self._perform(self._machine.force())  # what is not on disk is kept here, and there is a bound

    # --- events of lanes --------------------------------------------------------------------------

    def acked(self, lane: int, through: int) -> None:
        self._perform(self._machine.acked(lane, through))

    def written(self, lane: int, through: int) -> None:
        self._perform(self._machine.written(lane, through))

    def lane_behind(self, lane: int, why: str) -> None:
        self._perform(self._machine.lane_behind(lane, why))

    def lane_caught_up(self, lane: int) -> None:
        self._perform(self._machine.lane_behind(lane, ""))
        self._has_room()

    def lane_failed(self, lane: int, why: str) -> None:
        self._perform(self._machine.lane_failed(lane, why))
        self._has_room()

    def refused(self, lane: int, error: LedgerError) -> None:
        self._perform(self._machine.refused(lane, error))

    # --- effects ------------------------------------------------------------------------------------

    def _perform(self, effects: list[AppendEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._lanes.send(effect)
                case Accept(last_entry):
                    self._answers.accepted(last_entry)
                    self._made_progress()
                case Confirm(last_entry):
                    self._answers.confirmed(last_entry)
                    self._made_progress()
                    self._idle_lac.confirmed()
                case Force():
                    self._lanes.force(effect)
                case OpenLane():
                    self._lanes.open(effect)
                    self._quorum.look()
                    self._has_room()
                case CloseLane():
                    self._lanes.close(effect)
                case FindReplacements():
                    self._tasks.start(self._find_replacements(effect))
                case RetryLater():
                    self._loop.call_later(self._config.retry_replacement_seconds, self._retry)
                    self._quorum.look()
                case ChangeRecord(record):
                    self._tasks.start(self._change(record))
                case Finish(error):
                    self._finish(error)

    def _made_progress(self) -> None:
        self._clock.progressed()
        self._has_room()

    def _has_room(self) -> None:
        self._room.set()
        self.on_progress()

    async def _find_replacements(self, effect: FindReplacements) -> None:
        domains = self._config.fault_domains_min
        quorum = self._machine.record.shape.write_quorum
        chosen, rejected = await find_replacements(self._cluster, effect, quorum, domains_min=domains)
        self._perform(self._machine.replacements(chosen, rejected))

    def _retry(self) -> None:
        if not self._machine.has_ended:
            self._perform(self._machine.retry_replacements())

    async def _change(self, record: LedgerRecord) -> None:
        self._perform(await self._version.change(record, self._machine))

    def _finish(self, error: LedgerError | None) -> None:
        if self._finished.done():
            return
        self._finished.set_result(error)
        failure = error or LedgerClosed(self.ledger_id, "it was closed before this entry was confirmed")
        self._answers.fail(failure)
        self._made_progress()

    def _background_failed(self, error: BaseException) -> None:
        """A bug or a broken record, never the protocol: the writer ends with it."""
        wrapped = error if isinstance(error, LedgerError) else LedgerError(f"the writer failed: {error!r}")
        wrapped.__cause__ = error
        self._perform(self._machine.fail(wrapped))

    # --- timers ---------------------------------------------------------------------------------------

    def _is_waited_for(self) -> bool:
        return self._answers.any_wait and not self._finished.done()

    def _append_timed_out(self) -> None:
        self._give_up()
        limit = self._config.append_quorum_seconds_max
        self._perform(self._machine.fail(AppendTimeout(self.ledger_id, limit, self._machine.failures)))

    def _give_up(self) -> None:
        self._perform(self._machine.give_up())

    def _lac_statement(self) -> LacStatement | None:
        if self.last_add_confirmed < 0:
            return None
        return self._digester.sign_lac(self.last_add_confirmed, self._machine.confirmed_length)

    async def _let_go(self) -> None:
        """Ends everything this handle has running."""
        self._clock.stop()
        self._quorum.stop()
        self._idle_lac.stop()
        if self._tick is not None:
            self._tick.cancel()
        self._lanes.close_all()
        await self._tasks.close()
