"""Stores segments in ledgers: appends batches to them, closes them and reads them.

The custom metadata of a segment's ledger identifies the journal, acceptor and segment, and contains the acceptor's
state when the ledger was created. Thanks to this, a ledger that nothing refers to can be recognized as an orphan, and a
journal can be restored from its ledgers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from ledgers import Entry, LedgerError, NoSuchLedger
from ledgers.aio import LedgerClient, ReadHandle, WriteHandle
from metadata.records.journal_record import JournalState, SegmentRecord, encode_state
from metadata.records.ledger_record import JOURNAL

from ..batch import PART_BYTES_MAX, Assembler, Batch, BatchHeader, entries_of, header_of
from ..config import JournalConfig
from ..error_translation import as_unavailable, ledger_errors
from ..errors import JournalUnavailable, SegmentUnreadable
from .programs.acceptor_effects import LedgerEnd

JOURNAL_OF_LEDGER = JOURNAL
ACCEPTOR_OF_LEDGER = "bookledger.acceptor"
SEGMENT_OF_LEDGER = "bookledger.segment"

STATE_OF_LEDGER = "bookledger.journal.state"
"""The key, in a ledger's custom metadata, of the acceptor's state when it created the ledger. The only segment in that
state is the ledger's own, as it was known at that time."""

CLOSE_SECONDS_MAX = 5.0
"""How long closing a journal waits for its ledgers to close."""

_EMPTY = LedgerEnd(None)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment for which a ledger is created. `end_txid` is set if the end is already known, as it is for a copy."""

    start_txid: int
    layout_version: int
    writer_epoch: int
    end_txid: int | None = None

    def encode_ledger_state(self, state: JournalState) -> bytes:
        """Encodes the part of the acceptor's state that is stored in the segment's ledger."""
        segment = SegmentRecord(
            self.start_txid,
            0,
            self.layout_version,
            self.writer_epoch,
            self.end_txid,
            self.end_txid is not None,
        )
        part = JournalState(
            storage=state.storage,
            last_promised_epoch=state.last_promised_epoch,
            last_writer_epoch=state.last_writer_epoch,
            segments=(segment,),
            purged_below=state.purged_below,
            generation=state.generation,
            joined_behind=state.joined_behind,
            epochs_above=state.epochs_above,
        )
        return encode_state(part)


@dataclass(frozen=True, slots=True)
class BatchInFlight:
    """A batch in flight to disk. It is done when all its entries are confirmed."""

    entries: list[asyncio.Future[int]]

    async def confirmed(self) -> None:
        """Waits until the complete batch is on disk. Raises JournalUnavailable if this cannot be confirmed."""
        with ledger_errors("the batch is not confirmed"):
            for future in self.entries:
                await future


class AcceptorLedgers:
    """The ledgers of one acceptor's segments. Belongs to the event loop of its client."""

    def __init__(
        self,
        client: LedgerClient,
        journal_id: str,
        acceptor: str,
        config: JournalConfig,
        state_now: Callable[[], JournalState | None] = lambda: None,
    ) -> None:
        self._client = client
        self._state_now = state_now
        self._labels = {JOURNAL_OF_LEDGER: journal_id.encode(), ACCEPTOR_OF_LEDGER: acceptor.encode()}
        self._config = config
        self._writers: dict[int, WriteHandle] = {}
        self._starts: dict[int, int] = {}

    @property
    def open_segments(self) -> list[tuple[int, int]]:
        """The first txid and the ledger of each segment that this process is writing, or whose ledger `close` is
        still closing."""
        return sorted((start, ledger_id) for ledger_id, start in self._starts.items())

    # --- writing -----------------------------------------------------------------------------------

    async def create(self, new: NewSegment) -> int:
        """Creates a ledger to which `append` adds batches."""
        config, state = self._config, self._state_now()
        said = {**self._labels, SEGMENT_OF_LEDGER: str(new.start_txid).encode()}
        if state is not None:
            said[STATE_OF_LEDGER] = new.encode_ledger_state(state)
        with ledger_errors(f"no ledger for segment {new.start_txid}"):
            writer = await self._client.create_ledger(
                ensemble_size=config.ensemble_size,
                write_quorum=config.write_quorum,
                ack_quorum=config.ack_quorum,
                digest=config.digest,
                password=config.password,
                custom_metadata=said,
            )
        self._writers[writer.ledger_id] = writer
        self._starts[writer.ledger_id] = new.start_txid
        return writer.ledger_id

    def takes_now(self, ledger_id: int, size_bytes: int) -> bool:
        """Returns whether `append_now` can append a batch of this size without waiting and as a single entry."""
        writer = self._writers.get(ledger_id)
        return writer is not None and size_bytes <= PART_BYTES_MAX and writer.has_room

    def append_now(self, ledger_id: int, batch: Batch) -> asyncio.Future[int]:
        """Appends a batch that `takes_now` allows. The future completes when the batch is on disk. Raises
        JournalUnavailable."""
        appended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        (entry,) = entries_of(batch)
        try:
            self._writers[ledger_id].submit(entry, appended)
        except LedgerError as error:
            raise as_unavailable(error, f"ledger {ledger_id} accepts no further batches") from error
        return appended

    async def append(self, ledger_id: int, batch: Batch) -> BatchInFlight:
        """Appends a batch. Batches reach the disk in the order of these calls.

        Waits only while the ledger's writer has no room for further entries. Raises JournalUnavailable if the ledger
        accepts no further batches.
        """
        writer = self._writers.get(ledger_id)
        if writer is None:
            raise JournalUnavailable(f"this process no longer writes to ledger {ledger_id}")
        with ledger_errors(f"ledger {ledger_id} accepts no further batches"):
            entries = [await writer.append_async(entry) for entry in entries_of(batch)]
        for future in entries:  # a caller that is cancelled midway never awaits the remaining futures
            future.add_done_callback(_retrieved)
        return BatchInFlight(entries)

    async def end(self, ledger_id: int) -> LedgerEnd:
        """Closes the ledger for all writers and returns its end. If this process has a healthy writer for the ledger,
        that writer closes it; otherwise a recovery does."""
        writer = self._writers.pop(ledger_id, None)
        self._starts.pop(ledger_id, None)
        if writer is not None:
            with suppress(
                LedgerError
            ):  # the writer was fenced or failed: the recovery below determines the end
                await writer.close()
        with ledger_errors(f"ledger {ledger_id} could not be ended"):
            reader = await self._client.open_ledger(ledger_id, password=self._config.password)
            return await _end_of(reader)

    async def drop(self, ledger_id: int) -> None:
        """Deletes a ledger. Does nothing if the ledger is already gone."""
        writer = self._writers.pop(ledger_id, None)
        self._starts.pop(ledger_id, None)
        if writer is not None:
            await writer.abandon()
        with ledger_errors(f"ledger {ledger_id} could not be deleted"), suppress(NoSuchLedger):
            await self._client.delete_ledger(ledger_id, password=self._config.password, force=True)

    async def close(self) -> None:
        """Closes the writers of all ledgers. Their edits are kept; the journal's next writer ends the segments.

        A healthy ledger writer closes its ledger, so that readers see everything that was confirmed. If that takes
        longer than CLOSE_SECONDS_MAX, the ledger is left open, as after a crash.
        """
        writers, self._writers = list(self._writers.values()), {}
        await asyncio.gather(*(self._let_go(writer) for writer in writers))

    async def _let_go(self, writer: WriteHandle) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await writer.close()
        except (TimeoutError, LedgerError) as error:
            line, about = "ledger %d remains open until it is recovered: %s", {"ledger": writer.ledger_id}
            log.info(line, writer.ledger_id, error or "no answer in time", extra=about)
            await writer.abandon()
        finally:
            self._starts.pop(writer.ledger_id, None)

    # --- reading ------------------------------------------------------------------------------------

    async def look(self, ledger_id: int) -> LedgerEnd:
        """Returns the confirmed end of a ledger, without disturbing its writer."""
        with ledger_errors(f"ledger {ledger_id} could not be read"):
            return await _end_of(await self._open(ledger_id))

    async def batches(self, ledger_id: int, from_txid: int) -> AsyncGenerator[Batch, None]:
        """Yields confirmed batches, from the one that holds `from_txid` to the last one confirmed at the time of the
        call. Never fences."""
        with ledger_errors(f"ledger {ledger_id} could not be read"):
            reader = await self._open(ledger_id)
            first = await _entry_of(reader, from_txid)
            async with aclosing(_batches(reader.read(first), from_txid)) as batches:
                async for batch in batches:
                    yield batch

    async def batches_of_own(self, ledger_id: int, from_txid: int) -> AsyncGenerator[Batch, None]:
        """Yields the batches from `from_txid` on that this process's own writer has confirmed, even if readers cannot
        see them yet."""
        writer = self._writers.get(ledger_id)
        if writer is None:
            return
        with ledger_errors(f"ledger {ledger_id} could not be read"):
            reader = await self._open(ledger_id)
            first, last = await _entry_of(reader, from_txid), writer.last_add_confirmed
            if first > last:
                return
            async with aclosing(_batches(reader.read_unconfirmed(first, last), from_txid)) as batches:
                async for batch in batches:
                    yield batch

    async def _open(self, ledger_id: int) -> ReadHandle:
        return await self._client.open_ledger(ledger_id, recovery=False, password=self._config.password)


def _retrieved(future: asyncio.Future[int]) -> None:
    if not future.cancelled():
        future.exception()


async def _batches(found: AsyncGenerator[Entry, None], from_txid: int) -> AsyncGenerator[Batch, None]:
    assembler = Assembler()
    async with aclosing(found) as entries:
        async for entry in entries:
            batch = assembler.feed(entry.payload)
            if batch is not None and batch.last_txid >= from_txid:
                yield batch


async def _header(reader: ReadHandle, entry_id: int) -> BatchHeader:
    return header_of((await reader.read_entry(entry_id)).payload)


async def _end_of(reader: ReadHandle) -> LedgerEnd:
    """Returns the end of the last complete batch."""
    last = reader.last_add_confirmed
    while last >= 0:
        header = await _header(reader, last)
        if header.is_last_part:
            return LedgerEnd(header.last_txid, header.committed_txid)
        last -= header.part + 1
    return _EMPTY


async def _entry_of(reader: ReadHandle, txid: int) -> int:
    """Finds the first entry of the batch that holds `txid`, or of the first batch after it, by binary search."""
    low, high = 0, reader.last_add_confirmed + 1
    while low < high:
        middle = (low + high) // 2
        header = await _header(reader, middle)
        if header.last_txid < txid:
            low = middle + 1
        else:
            high = middle
    if low > reader.last_add_confirmed:
        return low
    header = await _header(reader, low)
    if header.part > low:
        raise SegmentUnreadable(
            f"entry {low} of ledger {reader.ledger_id} claims to be part {header.part} of its batch"
        )
    return low - header.part
