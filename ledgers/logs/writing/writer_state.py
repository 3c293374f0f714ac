"""What a log's writer is and has: its records by what has become of them, its ledgers, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metadata.records.logs.log_record import LogRecord

from ...cluster import Cluster
from ...errors import LedgerError, LogClosed
from ...writing.append_futures import AppendFutures, Complete
from ...writing.write_handle import WriteHandle
from ..log_chain import LogChain
from .gathered_records import GatheredRecords
from .log_pipeline import LogPipeline
from .unconfirmed_records import UnconfirmedRecords


class WriterState:
    """`on_progress` is called after records were confirmed or the writer ended, for wrappers in other threads."""

    def __init__(self, cluster: Cluster, chain: LogChain, epoch: int, begun: WriteHandle) -> None:
        """`begun`: the ledger of the log's last segment."""
        assert chain.record.last is not None
        first_position = chain.record.last.first_position
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self.check_process = cluster.check_process
        self._chain, self._epoch = chain, epoch
        self.entry_bytes_max = begun.entry_bytes_max
        self.pending_bytes_max = cluster.config.pending_bytes_max
        self._machine = LogPipeline(first_position)
        self._handles: dict[int, WriteHandle] = {}
        self._gathered = GatheredRecords()
        self._unconfirmed = UnconfirmedRecords(first_position)
        self._answers = AppendFutures(first_position)
        self._finished: asyncio.Future[LedgerError | None] = self._loop.create_future()
        self._closing = False
        self.on_progress: Callable[[], None] = lambda: None

    @property
    def record(self) -> LogRecord:
        """The log's metadata as this writer last knew it."""
        return self._chain.record

    @property
    def epoch(self) -> int:
        """The number of this writer's term."""
        return self._epoch

    @property
    def next_position(self) -> int:
        """The position of what is appended next."""
        return self._machine.next_position + len(self._gathered.payloads)

    @property
    def confirmed_end(self) -> int:
        """All records before this position are confirmed. Never goes back."""
        return self._machine.confirmed_end

    @property
    def has_ended(self) -> bool:
        """Whether this writer takes no more records: closed, or ended by an error."""
        return self._finished.done()

    @property
    def failure(self) -> LedgerError | None:
        """What ended this writer, if it was not a close."""
        return self._finished.result() if self._finished.done() else None

    @property
    def pending_bytes(self) -> int:
        """Bytes of records appended and not confirmed, and ENTRY_OVERHEAD_BYTES for each of them."""
        return self._unconfirmed.size_bytes + self._gathered.size_bytes

    @property
    def is_behind(self) -> bool:
        """Whether a bookie is so far behind that appends should wait for it (rule W6)."""
        return any(handle.is_behind for handle in self._handles.values())

    @property
    def is_full(self) -> bool:
        """Whether an append has to wait."""
        is_full = self.pending_bytes >= self.pending_bytes_max or self.is_behind
        return is_full and not self.has_ended

    def raise_if_ended(self) -> None:
        """Raises what ended the writer, LogClosed where that was a close."""
        if self.failure is not None:
            raise self.failure
        if self._closing:
            raise LogClosed(self.record.name)

    def complete_with(self, complete: Complete) -> None:
        """Passes answered appends to this in bulk, instead of completing their futures one by one."""
        self._answers.complete = complete
