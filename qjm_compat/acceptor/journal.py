"""The acceptor's shell: runs its programs against a metadata store and ledgers, and serves edits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from ledgers.aio import LedgerClient
from metadata.records.journal_record import FinalizedSegment, JournalStorage, SegmentRecord
from metadata.records.journal_store import JournalStore
from metadata.store import MetadataStore

from ..batch import Batch
from ..config import JournalConfig
from ..error_translation import metadata_errors
from ..errors import (
    BadRequest,
    EditsNotCached,
    JournalError,
    JournalUnavailable,
    NewerTxid,
    SegmentUnreadable,
)
from ..requests import BatchDone, GetJournaledEdits, JournaledEdits, R, RemoteEditLog, Request, SendEdits
from .acceptor_ledgers import AcceptorLedgers, NewSegment
from .acceptor_metrics import AcceptorMetrics
from .copying import Pace, SegmentContent, SegmentReader, checked_part, copy_segment
from .edits_cache import EditsCache, cut
from .intake import EditsIntake, Turns
from .outage_retry import AWAY_SECONDS_MAX, OutageRetry
from .programs import state_transitions
from .programs.acceptor_effects import (
    Copied,
    CopySegment,
    CreateLedger,
    DeleteFinalized,
    DropLedger,
    Effect,
    EndLedger,
    ListFinalized,
    LookAtLedger,
    Program,
    PutFinalized,
    ReadFinalized,
    ReadState,
    SwapState,
)
from .programs.acceptor_memory import CurrentSegment, Memory
from .programs.edit_log_manifest import place_of
from .programs.machine import CONCURRENT, RESETS, program
from .programs.sync_programs import (
    SegmentsHeld,
    SyncOutcome,
    make_room_for_another,
    segments_held,
    take_finalized,
)

TAIL_BYTES_MAX = 8 * 1024 * 1024
"""Maximum number of bytes of edits that an acceptor returns to a follower in one answer. It always returns at least one
batch."""

COPY_SECONDS_MAX = 1800.0
"""Maximum duration of one copy. `fsck --delete-orphans` may delete unreferenced ledgers that are older than this."""


class Journal:
    """One acceptor of a journal, in this process. Several processes may run the same acceptor, one at a time.

    Its promises are made by compare-and-swap on one record, and its segments are ledgers, so a promise made in one
    process binds all processes. Each process keeps its own record of the serial numbers of calls. Belongs to the event
    loop of its client.
    """

    def __init__(
        self,
        journal_id: str,
        name: str,
        store: MetadataStore,
        client: LedgerClient,
        config: JournalConfig,
        peers: Mapping[str, SegmentReader],
    ) -> None:
        self.name = name
        self.journal_id = journal_id
        self.metrics = AcceptorMetrics()
        self._config = config
        self._store = JournalStore(store, journal_id, name)
        self._ledgers = AcceptorLedgers(client, journal_id, name, config, lambda: self._memory.state)
        self._peers = peers
        self._memory = Memory(journal_id)
        self._cache = EditsCache(config.edits_cache_bytes_max)
        self._turns = Turns()
        self._intake = EditsIntake(
            self._memory, self._ledgers, self._cache, self.metrics, config, self._turns, self._run
        )

    async def call(self, request: Request[R]) -> R:
        """Answers one call once its changes are durable. Raises JournalError."""
        if isinstance(request, SendEdits):
            return cast("R", await self._intake.send(request))
        if isinstance(request, GetJournaledEdits):
            return cast("R", await self._journaled_edits(request))
        if type(request) in CONCURRENT:
            return await self._run(program(self._memory, request))
        async with self._turns.next():
            answer = await self._run(program(self._memory, request), OutageRetry.of(request))
            self._note_epochs()
            if type(request) in RESETS:
                self._cache.clear()
            return answer

    @property
    def is_unknown(self) -> bool:
        """Whether no state of this journal has been found yet, and no call is running."""
        return self._memory.stored is None and not self._turns.is_anybody_in_line

    @property
    def storage(self) -> JournalStorage | None:
        """The namespace whose edits the journal holds, as last read; None if the journal is not formatted."""
        state = self._memory.state
        return state.storage if state is not None else None

    async def close(self) -> None:
        """Abandons the open segment, which the next writer will end, and closes the ledgers."""
        self._memory.open = None
        await self._ledgers.close()

    @property
    def open_segments(self) -> list[tuple[int, int]]:
        """See `AcceptorLedgers.open_segments`."""
        return self._ledgers.open_segments

    def begin(self, request: SendEdits, done: BatchDone) -> bool:
        """See `Acceptor.begin`."""
        return self._intake.begin(request, done)

    # --- reading -------------------------------------------------------------------------------------

    async def _journaled_edits(self, request: GetJournaledEdits) -> JournaledEdits:
        last = self._cache.last_txid
        if last is not None and request.since_txid <= last:
            try:
                return self._served(self._retrieve(request))
            except EditsNotCached as miss:
                self.metrics.missed(miss.missing_txns)
                if request.cached_only:
                    raise
        return self._served(await self._edits_on_disk(request))

    async def _edits_on_disk(self, request: GetJournaledEdits) -> JournaledEdits:
        """Returns edits from the ledger that holds them. Returns edits of only one segment, so more may follow."""
        since = request.since_txid
        place = await self._run(place_of(self._memory, since))
        if since == place.highest_txid + 1:
            return JournaledEdits(0)
        if since > place.highest_txid:
            raise NewerTxid(
                f"Highest txn ID available in the journal is {place.highest_txid}, "
                f"but requested txns starting at {since}."
            )
        log = place.log
        if log is None or request.cached_only:
            raise EditsNotCached(since, 0)
        content = await self.read_segment(log.start_txid, since)
        edits = await _gathered(
            content, since, min(log.end_txid, since + request.max_txns - 1), TAIL_BYTES_MAX
        )
        return replace(
            edits,
            writer_epoch=log.writer_epoch,
            is_final=not log.in_progress,
            accepted_in_epoch=log.accepted_in_epoch,
        )

    def _retrieve(self, request: GetJournaledEdits) -> JournaledEdits:
        return self._cache.retrieve(request.since_txid, request.max_txns, TAIL_BYTES_MAX)

    def _served(self, edits: JournaledEdits) -> JournaledEdits:
        self.metrics.served(edits.txn_count, len(edits.records))
        return edits

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        """Returns the edits of a segment that are on disk, from the batch that holds `from_txid` on. Never fences.

        Raises SegmentUnreadable if the segment does not exist. Iterating over the returned batches raises
        JournalUnavailable if they cannot be read.
        """
        segment = await self._find(start_txid)
        in_progress = isinstance(segment, SegmentRecord) and not segment.finalized
        if segment is None or (in_progress and not in_progress_ok):
            raise SegmentUnreadable(
                f"No edit log found starting at txid {start_txid} ; journal id: {self.journal_id}"
            )
        batches = self._ledgers.batches(segment.ledger_id, from_txid)
        if isinstance(segment, SegmentRecord) and segment.end_txid is None:
            batches = self._with_latest(segment.ledger_id, from_txid, batches)
        return SegmentContent(segment.layout_version, in_progress, batches)

    async def _with_latest(
        self, ledger_id: int, from_txid: int, batches: AsyncGenerator[Batch, None]
    ) -> AsyncGenerator[Batch, None]:
        """Yields the batches visible to readers of the ledger, then those whose confirmation only this acceptor's own
        writer has received."""
        next_txid = from_txid
        async with aclosing(batches):
            async for batch in batches:
                yield batch
                next_txid = batch.last_txid + 1
        mine = self._memory.open
        if mine is None or mine.ledger_id != ledger_id or mine.durable_txid < next_txid:
            return
        latest = self._latest_at_hand(mine, next_txid)
        if latest is not None:
            yield latest
            return
        async with aclosing(self._ledgers.batches_of_own(ledger_id, next_txid)) as batches:
            async for batch in batches:
                yield batch

    def _latest_at_hand(self, mine: CurrentSegment, next_txid: int) -> Batch | None:
        count = mine.durable_txid - next_txid + 1
        try:
            edits = self._cache.retrieve(next_txid, count, sys.maxsize)
        except EditsNotCached:
            return None
        if edits.txn_count != count or edits.writer_epoch != mine.writer_epoch:
            return None
        return Batch(next_txid, count, edits.records, self._memory.committed_txid, edits.writer_epoch)

    async def is_purged(self, start_txid: int) -> bool:
        """Returns whether any segment that begins at `start_txid` has been purged."""
        with metadata_errors():
            found = await self._store.read_state()
        return (
            found is not None
            and start_txid < found.state.purged_below
            and await self._find(start_txid) is None
        )

    async def _find(self, start_txid: int) -> SegmentRecord | FinalizedSegment | None:
        with metadata_errors():
            found = await self._store.read_state()
            if found is None:
                return None
            segment = state_transitions.segment_at(found.state, start_txid)
            if segment is not None:
                return segment
            record = await self._store.read_segment(start_txid)
        return record.segment if record is not None and found.state.shows(record.segment) else None

    # --- syncing with other acceptors ------------------------------------------------------------------

    async def segments_held(self) -> SegmentsHeld:
        """Returns the segments finalized at this acceptor, without fencing any writer. Raises JournalNotFormatted,
        JournalUnavailable."""
        return await self._run(segments_held(self._memory))

    async def make_room_for_another(self, epochs_above: int) -> SegmentsHeld:
        """See `programs.sync_programs.make_room_for_another`. Raises StaleEpoch, JournalUnavailable."""
        async with self._turns.next():
            return await self._run(make_room_for_another(self._memory, epochs_above))

    async def purged_below(self) -> int:
        """Returns the txid before which all purged segments ended. Raises JournalUnavailable."""
        with metadata_errors():
            found = await self._store.read_state()
        return found.state.purged_below if found is not None else 0

    async def take_finalized(
        self,
        wanted: RemoteEditLog,
        source: SegmentReader,
        pace: Pace,
        is_wanted: Callable[[], Awaitable[bool]],
    ) -> SyncOutcome:
        """Finalizes at this acceptor a segment that another acceptor has finalized; if necessary, copies the segment
        from there.

        The writer's calls continue in the meantime. `is_wanted` is called after the copy, because the segment may have
        been purged by then. Raises RuleViolated if this acceptor's contents contradict the segment, SegmentUnreadable,
        JournalUnavailable.
        """
        taken = await self._take(wanted, None)
        if taken is not SyncOutcome.LACKING:
            return taken
        name = getattr(source, "name", "the other acceptor")
        effect = CopySegment(name, wanted.start_txid, wanted.end_txid, wanted.writer_epoch)
        copy = await self._copied(source, effect, pace)
        try:
            is_still_wanted = await is_wanted()
        except BaseException:
            await self._ledgers.drop(copy.ledger_id)
            raise
        if is_still_wanted:
            taken = await self._take(wanted, copy)
            self.metrics.edit_logs_synced += taken is SyncOutcome.COPIED
            return taken
        await self._ledgers.drop(copy.ledger_id)
        return SyncOutcome.PURGED

    async def _copied(self, source: SegmentReader, wanted: CopySegment, pace: Pace) -> Copied:
        try:
            async with asyncio.timeout(COPY_SECONDS_MAX):
                return await copy_segment(source, self._ledgers, wanted, pace)
        except TimeoutError as error:
            raise JournalUnavailable(
                f"copying segment {wanted.start_txid}-{wanted.end_txid} took longer than {COPY_SECONDS_MAX:g} s: "
                f"raise the limit on bytes per second"
            ) from error

    async def _take(self, wanted: RemoteEditLog, copy: Copied | None) -> SyncOutcome:
        async with self._turns.next():
            return await self._run(take_finalized(self._memory, wanted, copy))

    # --- programs ------------------------------------------------------------------------------------

    async def _run(self, steps: Program[R], retry: OutageRetry | None = None) -> R:
        """Runs one program and returns its answer. With `retry`, waits while the metadata is unavailable."""
        retry = retry or OutageRetry(0.0)
        try:
            effect = next(steps)
            while True:
                try:
                    outcome = await retry.until_answered(self._perform, effect)
                except JournalError as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(outcome)
        except StopIteration as end:
            return cast("R", end.value)

    async def _perform(self, effect: Effect) -> Any:
        with metadata_errors():
            match effect:
                case ReadState():
                    return await self._store.read_state()
                case SwapState(state, version):
                    return await self._store.swap_state(state, version, seconds_max=AWAY_SECONDS_MAX)
                case ReadFinalized(start_txid):
                    return await self._store.read_segment(start_txid)
                case PutFinalized(segment, version):
                    return await self._store.put_segment(segment, version, seconds_max=AWAY_SECONDS_MAX)
                case ListFinalized():
                    return tuple([found async for found in self._store.list_segments()])
                case DeleteFinalized(found):
                    return await self._store.delete_segment(found)
                case CreateLedger(start_txid, writer_epoch, layout_version):
                    return await self._ledgers.create(NewSegment(start_txid, layout_version, writer_epoch))
                case EndLedger(ledger_id):
                    return await self._ledgers.end(ledger_id)
                case LookAtLedger(ledger_id):
                    return await self._ledgers.look(ledger_id)
                case DropLedger(ledger_id):
                    return await self._ledgers.drop(ledger_id)
                case CopySegment(source):
                    return await copy_segment(self._peer(source), self._ledgers, effect)

    def _peer(self, name: str) -> SegmentReader:
        if name not in self._peers:
            raise BadRequest(
                f"{name!r} is not an acceptor of journal {self.journal_id}; its acceptors are {sorted(self._peers)}"
            )
        return self._peers[name]

    def _note_epochs(self) -> None:
        state = self._memory.state
        if state is not None:
            self.metrics.epochs(state.last_promised_epoch, state.last_writer_epoch)


async def _gathered(
    content: SegmentContent, first_txid: int, last_txid: int, bytes_max: int
) -> JournaledEdits:
    """Returns the edits of these txids as one answer, or only the first of them if they exceed `bytes_max`."""
    parts: list[bytes | memoryview] = []
    size = 0
    next_txid = first_txid
    try:
        async for batch in content.batches:
            if next_txid > last_txid or size >= bytes_max:
                break
            if batch.first_txid < next_txid:
                batch = checked_part(batch, next_txid, batch.last_txid)
            parts.append(cut(batch, next_txid, last_txid))
            size += len(parts[-1])
            next_txid = batch.last_txid + 1
    finally:
        await content.batches.aclose()
    count = min(next_txid - 1, last_txid) - first_txid + 1
    return JournaledEdits(count, content.layout_version, b"".join(parts))
