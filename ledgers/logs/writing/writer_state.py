"""The state of a log's writer: its records, its ledgers, and how it ended."""

from __future__ import annotations

from metadata.records.logs.log_record import LogRecord

from ...cluster import Cluster
from ...errors import LogClosed
from ...writing.append_futures import AppendFutures
from ...writing.write_handle import WriteHandle
from ...writing.writer import Writer
from ..log_chain import LogChain
from .gathered_records import GatheredRecords
from .log_pipeline import LogPipeline
from .unconfirmed_records import UnconfirmedRecords


class WriterState(Writer):
    """The state of a log's writer."""

    def __init__(self, cluster: Cluster, chain: LogChain, epoch: int, begun: WriteHandle) -> None:
        """`begun`: the ledger of the log's last segment."""
        assert chain.record.last is not None
        first_position = chain.record.last.first_position
        super().__init__(cluster, AppendFutures(first_position))
        self._chain, self._epoch = chain, epoch
        self.entry_bytes_max = begun.entry_bytes_max
        self._machine = LogPipeline(first_position)
        self._handles: dict[int, WriteHandle] = {}
        self._gathered = GatheredRecords()
        self._unconfirmed = UnconfirmedRecords(first_position)

    @property
    def what(self) -> str:
        return f"log {self.record.name!r}"

    def tell_confirmed(self) -> None:
        for handle in self._handles.values():
            handle.tell_confirmed()

    @property
    def record(self) -> LogRecord:
        """The log's metadata as this writer last knew it."""
        return self._chain.record

    @property
    def epoch(self) -> int:
        """The number of this writer's epoch; each take-over of the log begins a higher one."""
        return self._epoch

    @property
    def next_position(self) -> int:
        """The position of the next record to be appended."""
        return self._machine.next_position + len(self._gathered.payloads)

    @property
    def confirmed_end(self) -> int:
        """All records before this position are confirmed. It never goes back."""
        return self._machine.confirmed_end

    @property
    def pending_bytes(self) -> int:
        """Bytes of appended and unconfirmed records, plus ENTRY_OVERHEAD_BYTES for each of them."""
        return self._unconfirmed.size_bytes + self._gathered.size_bytes

    @property
    def is_behind(self) -> bool:
        """Whether a bookie is so far behind that appends should wait for it (rule W6)."""
        return any(handle.is_behind for handle in self._handles.values())

    def raise_if_ended(self) -> None:
        """Raises the error that ended the writer, LogClosed if it was closed."""
        self._raise_if_failed()
        if self._closing:
            raise LogClosed(self.record.name)
