"""Appends batches of edits to a segment's ledger: checks them, keeps them in order, reports when they are on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from ledgers import LedgerError, LedgerFenced

from ..batch import Batch
from ..config import JournalConfig
from ..edits import EditLogError, check_batch
from ..error_translation import as_unavailable
from ..errors import BadRequest, JournalError, JournalUnavailable, StaleEpoch
from ..requests import BatchDone, SendEdits
from .acceptor_ledgers import AcceptorLedgers
from .acceptor_metrics import AcceptorMetrics
from .edits_cache import EditsCache
from .programs.acceptor_effects import Program
from .programs.acceptor_memory import CurrentSegment, Memory
from .programs.segment_programs import admit_edits, admits_from_memory

Run = Callable[[Program[CurrentSegment | None]], Awaitable[CurrentSegment | None]]


class Turns:
    """A FIFO lock: admits one call at a time, in the order of arrival."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._in_line = 0

    @property
    def is_anybody_in_line(self) -> bool:
        """Whether a call holds the lock or waits for it."""
        return self._in_line > 0

    @asynccontextmanager
    async def next(self) -> AsyncGenerator[None, None]:
        self._in_line += 1
        try:
            async with self._lock:
                yield
        finally:
            self._in_line -= 1


class EditsIntake:
    """Appends the batches of one acceptor. `run` executes a program that uses the metadata store."""

    def __init__(
        self,
        memory: Memory,
        ledgers: AcceptorLedgers,
        cache: EditsCache,
        metrics: AcceptorMetrics,
        config: JournalConfig,
        turns: Turns,
        run: Run,
    ) -> None:
        self._memory = memory
        self._ledgers = ledgers
        self._cache = cache
        self._metrics = metrics
        self._config = config
        self._turns = turns
        self._run = run

    async def send(self, request: SendEdits) -> None:
        """Returns when the batch is on disk; other batches may be in flight at the same time. Raises JournalError."""
        began = asyncio.get_running_loop().time()
        async with self._turns.next():
            segment = await self._run(admit_edits(self._memory, request))
            if segment is None:
                return
            batch = self._checked(request)
            try:
                appended = await self._ledgers.append(segment.ledger_id, batch)
            except JournalUnavailable as error:
                raise self._aborted(segment, error) from error
            segment.next_txid = batch.last_txid + 1
        try:
            await appended.confirmed()
        except JournalUnavailable as error:
            raise self._aborted(segment, error) from error
        self._on_disk(batch, segment, began)

    def begin(self, request: SendEdits, done: BatchDone) -> bool:
        """See `Acceptor.begin`. If only the disk write has to be awaited, appends the batch like `send`, but without a
        task."""
        segment = self._memory.open
        if self._turns.is_anybody_in_line or segment is None or not request.num_txns:
            return False
        if not admits_from_memory(self._memory, request):
            return False
        if not self._ledgers.takes_now(segment.ledger_id, len(request.records)):
            return False
        loop = asyncio.get_running_loop()
        try:
            batch, appended = self._take(request, segment)
        except JournalError as error:
            loop.call_soon(done, error)
        else:
            appended.add_done_callback(partial(self._over, batch, segment, loop.time(), done))
        return True

    def _take(self, request: SendEdits, segment: CurrentSegment) -> tuple[Batch, asyncio.Future[int]]:
        for effect in admit_edits(self._memory, request):
            raise AssertionError(f"{effect} was requested, although no metadata was needed")
        batch = self._checked(request)
        try:
            appended = self._ledgers.append_now(segment.ledger_id, batch)
        except JournalUnavailable as error:
            raise self._aborted(segment, error) from error
        segment.next_txid = batch.last_txid + 1
        return batch, appended

    def _over(
        self,
        batch: Batch,
        segment: CurrentSegment,
        began: float,
        done: BatchDone,
        appended: asyncio.Future[int],
    ) -> None:
        try:
            appended.result()
        except LedgerError as error:
            done(self._aborted(segment, as_unavailable(error, "the batch is not confirmed")))
        except asyncio.CancelledError:
            done(JournalUnavailable("the batch was abandoned"))
        else:
            self._on_disk(batch, segment, began)
            done(None)

    def _on_disk(self, batch: Batch, segment: CurrentSegment, began: float) -> None:
        segment.durable_txid = max(segment.durable_txid, batch.last_txid)
        self._cache.store(batch, segment.layout_version)
        took = asyncio.get_running_loop().time() - began
        self._metrics.wrote(batch, took, self._memory.committed_txid)

    def _checked(self, request: SendEdits) -> Batch:
        if self._config.verify_edits and not request.is_checked:
            try:
                check_batch(request.records, request.first_txid, request.num_txns)
            except EditLogError as error:
                raise BadRequest(
                    f"the batch of txids {request.first_txid} to {request.last_txid} is refused: {error} ; "
                    f"journal id: {self._memory.journal_id}"
                ) from error
        return Batch(
            request.first_txid,
            request.num_txns,
            bytes(request.records),
            self._memory.committed_txid,
            request.info.epoch,
        )

    def _aborted(self, segment: CurrentSegment, error: JournalUnavailable) -> JournalError:
        """Returns the error for a segment that accepts no more batches from this process: StaleEpoch if the ledger was
        fenced, which means that the journal has been promised to another writer; otherwise `error`."""
        if self._memory.open is segment:
            self._memory.open = None
        if isinstance(error.__cause__, LedgerFenced):
            return StaleEpoch(
                f"the ledger of segment {segment.start_txid} was fenced by a later writer: epoch "
                f"{segment.writer_epoch} is over ; journal id: {self._memory.journal_id}"
            )
        return error
