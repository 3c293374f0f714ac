"""The state of a log's writer: its records, its ledgers, and how it ended."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from metadata.records.logs.log_record import LogRecord

from ...cluster import Cluster
from ...entry import ENTRY_OVERHEAD_BYTES
from ...errors import LogClosed
from ...writing.append_futures import AppendFutures
from ...writing.base_writer import Writer
from ...writing.write_handle import WriteHandle
from ..log_chain import LogChain
from ..record_batch import EncodedRecords
from .log_pipeline import LogPipeline


class UnconfirmedRecords:
    """Unconfirmed records, in order of position, in the batches in which they were accepted."""

    def __init__(self, first_position: int) -> None:
        # each batch, with the number of its unconfirmed bytes
        self._batches: deque[tuple[EncodedRecords, int]] = deque()
        self._confirmed_of_first = 0  # number of confirmed records in the first batch
        self._first = first_position
        self._count = 0
        self._payload_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The total size of the records, including the overhead of each."""
        return self._payload_bytes + ENTRY_OVERHEAD_BYTES * self._count

    def add(self, records: EncodedRecords, size_bytes: int) -> None:
        """Adds records whose total size is `size_bytes`."""
        self._batches.append((records, size_bytes))
        self._count += len(records.rests)
        self._payload_bytes += size_bytes

    def drop(self, end_position: int) -> int:
        """Drops the confirmed records before this position; returns their number."""
        dropped = count = end_position - self._first
        assert 0 <= count <= self._count
        self._first, self._count = end_position, self._count - count
        while count:
            batch, size_bytes = self._batches.popleft()
            left = len(batch.rests) - self._confirmed_of_first
            if count < left:
                start = self._confirmed_of_first
                taken_bytes = batch.cut(start, start + count).size_bytes
                self._batches.appendleft((batch, size_bytes - taken_bytes))
                self._payload_bytes -= taken_bytes
                self._confirmed_of_first += count
                break
            self._payload_bytes -= size_bytes
            self._confirmed_of_first = 0
            count -= left
        return dropped

    def between(self, first_position: int, stop_position: int) -> list[EncodedRecords]:
        """Returns the records from `first_position` up to but not including `stop_position`."""
        assert self._first <= first_position <= stop_position <= self._first + self._count
        start = self._confirmed_of_first + first_position - self._first
        stop = start + stop_position - first_position
        found = []
        for batch, _ in self._batches:
            part = batch.cut(max(0, start), max(0, stop))
            if part.rests:
                found.append(part)
            start, stop = start - len(batch.rests), stop - len(batch.rests)
        return found


@dataclass(slots=True)
class GatheredRecords:
    """Payloads without other fields, in order. `entry_bytes`: the size of the payloads when stored as entries."""

    payloads: list[bytes] = field(default_factory=list)
    entry_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """The total size of the payloads, including the overhead of each."""
        return self.entry_bytes + ENTRY_OVERHEAD_BYTES * len(self.payloads)

    def take(self) -> tuple[list[bytes], int]:
        """Removes all payloads, and returns them with their size as entries."""
        taken = self.payloads, self.entry_bytes
        self.payloads, self.entry_bytes = [], 0
        return taken


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

    def send_lac(self) -> None:
        for handle in self._handles.values():
            handle.send_lac()

    @property
    def record(self) -> LogRecord:
        """The log's metadata, as last known to this writer."""
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
        """The position before which all records are confirmed. It never goes back."""
        return self._machine.confirmed_end

    @property
    def pending_bytes(self) -> int:
        """Size of the appended but unconfirmed records, plus ENTRY_OVERHEAD_BYTES for each of them."""
        return self._unconfirmed.size_bytes + self._gathered.size_bytes

    @property
    def is_behind(self) -> bool:
        """Whether a bookie is so far behind that appends should wait for it (rule W6)."""
        return any(handle.is_behind for handle in self._handles.values())

    def raise_if_ended(self) -> None:
        """Raises the error that ended the writer, or LogClosed if it was closed."""
        self._raise_if_failed()
        if self._closing:
            raise LogClosed(self.record.name)
