"""The append pipeline's shell: performs its effects, batches appends, signs and encrypts entries.

Entries appended while the loop is busy are processed together: one batch, one set of digests, one step of the machine.
The only work per entry is one digest and one future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bookie.wire import of_payloads
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import VersionedRecord

from ..bookie_client import LaneTerms
from ..bookies.lane_notes import LaneNotes
from ..bookies.lanes import Lanes
from ..bookies.replacements import find_replacements
from ..bookies.signed_lac import SignedLac
from ..cluster import Cluster
from ..entry import ENTRY_OVERHEAD_BYTES, Payload
from ..errors import AppendTimeout, LedgerClosed, LedgerError
from ..integrity.digest import Digester
from ..integrity.encryption import Cipher, entry_bytes_max
from ..integrity.ledger_keys import LedgerKey
from ..protocol.append_pipeline import AppendPipeline
from ..protocol.ledger_effects import (
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
from .append_backlog import AppendBacklog
from .append_futures import AppendFuture, AppendFutures, complete_and
from .base_writer import Writer
from .checked_batch import CheckedBatch, checked
from .idle_lac import IdleLac
from .progress_timeout import ProgressClock
from .quorum_watch import QuorumWatch, why_writing_waits


class PipelineShell(Writer):
    """Performs the effects of a ledger's append pipeline, and reports their outcome to it.

    `submit` and `submit_batch` accept entries.
    """

    def __init__(
        self,
        cluster: Cluster,
        created: VersionedRecord,
        digester: Digester,
        key: LedgerKey,
        *,
        cipher: Cipher | None = None,
        deferred_sync: bool = False,
    ) -> None:
        super().__init__(cluster, AppendFutures())
        self._config = cluster.config
        self._digester = digester
        self._cipher = cipher
        self.entry_bytes_max = entry_bytes_max(cipher)
        self._version = RecordVersion(cluster.ledgers, created, cluster.marks)
        self._deferred_sync = deferred_sync
        self._machine = AppendPipeline(
            created.record,
            deferred_sync=deferred_sync,
            delay_ensemble_change=cluster.config.delay_ensemble_change,
        )
        self._traces = cluster.writer_traces(self.ledger_id)
        self._lanes = self._lanes_of(created.record.identity, key)
        self._tasks = Tasks(self._background_failed)
        self._waiting = AppendBacklog()
        self._observers = [one for one in (cluster.writer_metrics(), self._traces) if one is not None]
        self._answers.complete = complete_and(cluster.turn.expect)
        self._will_take = False
        self._room = asyncio.Event()
        self._room_bytes = 0  # bytes to accept before the pending bytes are counted again
        self._is_close_audited = False
        self._idle_lac = IdleLac(
            cluster.idle_lacs,
            lambda: self.last_add_confirmed,
            lambda: not (self._finished.done() or self._answers.appends_wait),
            self._lanes.send_lac,
        )
        seconds_max = self._config.append_quorum_seconds_max
        self._clock = ProgressClock(seconds_max, self._is_waited_for, self._append_timed_out)
        self._quorum = QuorumWatch(
            seconds_max, lambda: self._machine.is_without_quorum, self._give_up, self._why_it_waits
        )
        self._perform(self._machine.start())

    def _lanes_of(self, identity: bytes, key: LedgerKey) -> Lanes:
        note, is_deferred = LaneNotes(self._machine).now, self._deferred_sync
        terms = LaneTerms(self.ledger_id, key, deferred_sync=is_deferred, identity=identity, note=note)
        of_lanes = self._traces.lanes if self._traces else None
        return Lanes(self._cluster, terms, self, SignedLac(self._digester, self._machine).now, of_lanes)

    # --- state -------------------------------------------------------------------------------

    @property
    def ledger_id(self) -> int:
        """The permanent id of the ledger."""
        return self._machine.record.ledger_id

    @property
    def what(self) -> str:
        return f"ledger {self.ledger_id}"

    def send_lac(self) -> None:
        if not self.has_ended and self.last_add_confirmed >= 0:
            self._lanes.send_lac()

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as this handle last read or wrote it."""
        return self._machine.record

    @property
    def last_add_confirmed(self) -> int:
        """The last entry that this handle knows to be confirmed together with all entries before it; −1 if there is
        none."""
        return self._machine.last_add_confirmed

    @property
    def pending_bytes(self) -> int:
        """Payload bytes appended but not confirmed, plus ENTRY_OVERHEAD_BYTES for each such entry."""
        entries = self._machine.last_add_pushed - self.last_add_confirmed + self._waiting.entries
        payload = self._machine.pending_bytes + self._waiting.size_bytes
        return payload + ENTRY_OVERHEAD_BYTES * entries

    @property
    def _last_add_answered(self) -> int:
        """The last entry whose append has completed."""
        machine = self._machine
        return machine.last_add_accepted if self._deferred_sync else machine.last_add_confirmed

    @property
    def is_behind(self) -> bool:
        """Whether a bookie is so far behind that appends should wait for it (rule W6)."""
        return self._machine.is_behind

    # --- accepting entries ------------------------------------------------------------------------

    def submit(self, payload: Payload, future: AppendFuture | None) -> None:
        """Accepts one entry without waiting; the caller enforces the limit on pending bytes. Raises an error if this
        entry cannot be accepted."""
        taken = checked(payload, self.entry_bytes_max)
        size = len(taken)
        self.raise_if_ended()
        self._waiting.add_all([taken], size)
        self._room_bytes -= size + ENTRY_OVERHEAD_BYTES
        if not self._will_take:
            self._take_soon()
        self._answers.append(future)
        if self._room_bytes <= 0:
            self._send_full_frames()

    def submit_each(
        self, payloads: Sequence[bytes], size_bytes: int, futures: Sequence[AppendFuture], head: bytes = b""
    ) -> None:
        """Accepts checked entries as `submit` does, each preceded by `head`. Either each entry has its own future, or
        none has."""
        self._take_in(payloads, size_bytes, head)
        self._answers.append_each(len(payloads), futures)
        self._send_full_frames()

    def submit_batch(self, batch: CheckedBatch, future: AppendFuture | None) -> int:
        """Accepts entries as `submit` does, either all or none; returns the first id."""
        self._take_in(batch.payloads, batch.size_bytes)
        self._answers.append(future, len(batch.payloads))
        self._send_full_frames()
        return self._answers.next_entry - len(batch.payloads)

    def _take_in(self, payloads: Sequence[bytes], size_bytes: int, head: bytes = b"") -> None:
        self.raise_if_ended()
        self._waiting.add_all(payloads, size_bytes, head)
        self._room_bytes = 0
        if not self._will_take:
            self._take_soon()

    def _take_soon(self) -> None:
        self._clock.begins()
        self._will_take = True
        if self._traces is not None:
            self._traces.begins()
        self._cluster.turn.take(self._take_waiting_or_end)

    async def _until_room(self) -> None:
        self._send_full_frames()
        while self.is_full:
            self._room.clear()
            await self._room.wait()
        self._count_room()

    def _count_room(self) -> None:
        """Computes the room for appends. Once the writer has been closed or has ended, there is none, so that each
        later append is checked and refused."""
        is_over = self._closing or self._finished.done()
        free = self.pending_bytes_max - self.pending_bytes
        self._room_bytes = 0 if is_over else min(free, self._waiting.room_bytes)

    def _send_full_frames(self) -> None:
        """Sends entries that fill a frame without waiting for the end of the loop iteration."""
        if self._waiting.room_bytes <= 0:
            self._take_waiting_or_end()
            self._cluster.turn.send_now()

    def raise_if_ended(self) -> None:
        """Raises the error that ended the writer; LedgerClosed if it was closed."""
        if self._closing or self._finished.done():
            self._raise_if_failed()
            raise LedgerClosed(self.ledger_id, "this writer was closed")

    def _take_waiting_or_end(self) -> None:
        """Passes the waiting entries to the machine; ends the writer if a batch fails half-way, which would leave
        futures without their entries."""
        try:
            self._take_waiting()
        except Exception as error:
            self._background_failed(error)

    def _take_waiting(self) -> None:
        """Passes everything appended since the last step to the machine."""
        self._will_take = False
        if self._machine.has_ended:
            return
        self._clock.start()
        for head, batch in self._waiting.batches():
            if self._machine.has_ended:
                break
            first = self._machine.last_add_pushed + 1
            if self._cipher is not None:
                head, batch = b"", self._cipher.seal(first, [head + payload for payload in batch])
            columns = of_payloads(first, batch, self._digester.sign(first, batch, head), head)
            for observer in self._observers:
                observer.taken(columns)
            self._perform(self._machine.append(columns))
        if self._deferred_sync and self.pending_bytes > self.pending_bytes_max // 2:
            self._perform(self._machine.force())  # unsynced entries occupy memory, which is limited

    # --- events of lanes --------------------------------------------------------------------------

    def acked(self, lane: int, through: int) -> None:
        self._perform(self._machine.acked(lane, through))

    def written(self, lane: int, through: int) -> None:
        self._perform(self._machine.written(lane, through))

    def lane_behind(self, lane: int, why: str) -> None:
        self._room_bytes = 0
        self._perform(self._machine.lane_behind(lane, why))
        self.on_progress()

    def lane_caught_up(self, lane: int) -> None:
        self._perform(self._machine.lane_behind(lane, ""))
        self._notify_waiters()

    def lane_failed(self, lane: int, why: str) -> None:
        self._perform(self._machine.lane_failed(lane, why))
        self._notify_waiters()

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
                    self._answered(last_entry)
                case Confirm(last_entry):
                    self._answers.confirmed(last_entry)
                    self._answered(last_entry)
                    self._idle_lac.confirmed()
                case Force():
                    self._lanes.force(effect)
                case OpenLane():
                    self._lanes.open(effect)
                    self._quorum.look()
                    self._notify_waiters()
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

    def _answered(self, last_entry: int) -> None:
        for observer in self._observers:
            observer.answered(last_entry)
        self._clock.progressed()
        self._notify_waiters()

    def _notify_waiters(self) -> None:
        self._room.set()
        self.on_progress()

    async def _find_replacements(self, effect: FindReplacements) -> None:
        domains = self._config.fault_domains_min
        quorum = self._machine.record.shape.write_quorum
        async with self._cluster.changing:
            chosen, rejected = await find_replacements(self._cluster, effect, quorum, domains_min=domains)
        self._perform(self._machine.replacements(chosen, rejected))

    def _retry(self) -> None:
        if not self._machine.has_ended:
            self._perform(self._machine.retry_replacements())

    async def _change(self, record: LedgerRecord) -> None:
        async with self._cluster.changing:
            effects = await self._version.change(record, self._machine)
        metrics, stands = self._cluster.metrics, self._machine.record.fragments == record.fragments
        is_ensemble_change = stands and not record.is_closed
        if metrics is not None and is_ensemble_change:
            metrics.changes.inc()
        self._perform(effects)
        if is_ensemble_change:
            self._idle_lac.has_joined()

    def _finish(self, error: LedgerError | None) -> None:
        if self._finished.done():
            return
        self._finished.set_result(error)
        self._room_bytes = 0
        failure = error or LedgerClosed(self.ledger_id, "it was closed before this entry was confirmed")
        self._answers.fail(failure)
        for observer in self._observers:
            observer.ended(failure)
        self._clock.progressed()
        self._notify_waiters()

    def _background_failed(self, error: BaseException) -> None:
        """Ends the writer after a bug or a broken record; never for protocol failures."""
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

    def _why_it_waits(self) -> str:
        limit = self._config.append_quorum_seconds_max
        return why_writing_waits(self.ledger_id, self._machine.failures, limit)

    def _give_up(self) -> None:
        self._perform(self._machine.give_up())

    async def _let_go(self) -> None:
        """Stops all tasks and timers of this handle."""
        self._clock.stop()
        self._quorum.stop()
        self._idle_lac.stop()
        self._lanes.close_all()
        await self._tasks.close()
