"""`spark.readStream.format("log")`: records of a log, or of all logs of a set, as they are confirmed.

An offset contains the positions in each log. A batch can therefore be reproduced from its offset alone, whatever has
happened to the segments since, and a restart from the checkpoint repeats exactly the required batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from ledgers import LedgerError
from ledgers.aio import LedgerClient, Log

from ..planning.partition import TaskPartition
from ..stream.metadata_stream import MetadataStream
from .options import EPOCH, LogOptions
from .segment_parts import (
    LogRange,
    Part,
    describe_deleted,
    extents_of,
    for_all,
    names_of,
    parts_between,
    tasks_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
from collections.abc import Sequence
from dataclasses import field

from ..stream.offsets import ITS_OWN_CHECKPOINT, BadOffset


@dataclass(frozen=True, slots=True)
class Delivered:
    """The records delivered from one log: all before `stop`. The batch that ends with this offset begins at `start`.

    `identity` is the log's identity, in hexadecimal. If another log gets the same name later, it has a different
    identity.
    """

    identity: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class LogsOffset:
    """The records delivered from each log, by name; empty before the first batch."""

    chosen: str
    logs: Mapping[str, Delivered] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        logs = {name: [one.identity, one.start, one.stop] for name, one in sorted(self.logs.items())}
        return {"chosen": self.chosen, "logs": logs}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], chosen: str) -> LogsOffset:
        """Decodes an offset. Raises BadOffset if it is malformed, or belongs to a stream of other logs."""
        try:
            logs = {
                str(name): Delivered(str(one[0]), int(one[1]), int(one[2]))
                for name, one in value["logs"].items()
            }
            found = cls(value["chosen"], logs)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BadOffset(
                f"{value!r} is not an offset of a stream of logs: {ITS_OWN_CHECKPOINT}"
            ) from error
        if found.chosen != chosen:
            raise BadOffset(
                f"the checkpoint belongs to a stream of {found.chosen}, but this is a stream of {chosen}: "
                f"{ITS_OWN_CHECKPOINT}"
            )
        return found


def shares(there: Sequence[int], records_max: int) -> list[int]:
    """Returns how many records of each log go into a batch of at most `records_max`. A log with few records contributes
    all of them.

    The other logs get equal shares, so no log waits for another.
    """
    given = [0] * len(there)
    by_size = sorted(range(len(there)), key=lambda n: there[n])
    for number, log in enumerate(by_size):
        given[log] = min(there[log], -(-records_max // (len(there) - number)))
        records_max -= given[log]
    return given


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The current start and end of a log. `begins_at`: where the stream begins to read the log, if it has not begun
    yet."""

    identity: str
    first_position: int
    end: int
    is_final: bool
    """Whether the log needs another segment before anything beyond the end can be confirmed."""
    begins_at: int


class LogStream(MetadataStream):
    """Streams all records from the selected start on, each once.

    If a log is added to a set later, it is read from its first record on. The stream ends with LedgerError if records
    were deleted before it had read them, unless failOnDataLoss is false. It always ends if a log is deleted, if another
    log gets its name, or if the metadata was rolled back to a time before the delivered records.
    """

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        super().__init__(options)
        self._options = options
        self._names = options.columns_of(schema)
        self._until: Mapping[str, int] | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.records_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def initialOffset(self) -> dict[str, Any]:
        return LogsOffset(self._options.chosen).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = self._offset(start)
        ends = self._look(partial(self._ends, before=before))
        if ends is None:
            return start
        if self._available_now and self._until is None:
            self._until = {name: one.end for name, one in ends.items()}
        starts = {name: self._start(name, one, before.logs.get(name)) for name, one in ends.items()}
        stops = self._stops(ends, starts, limit)
        is_all_known = before.logs.keys() == ends.keys()
        if is_all_known and all(stops[name] == one.stop for name, one in before.logs.items()):
            return start
        logs = {name: Delivered(one.identity, starts[name], stops[name]) for name, one in ends.items()}
        return LogsOffset(before.chosen, logs).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[TaskPartition[LogRange]]:
        return self._metadata.ask(partial(self._tasks, batch=self._offset(end))) if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from .reading import record_batches

        assert isinstance(partition, TaskPartition)
        return record_batches(self._access, partition.ranges, self._names)

    def _offset(self, value: dict[str, Any]) -> LogsOffset:
        return LogsOffset.from_json(value, self._options.chosen)

    # --- the logs as they are now -----------------------------------------------------------------

    async def _ends(self, uri: str, before: LogsOffset) -> dict[str, LogEnds]:
        names = await names_of(uri, self._options)
        async with LedgerClient(uri) as client:

            async def ends(name: str) -> LogEnds:
                log = await client.log(name, password=self._access.password)
                end = await log.end()
                record = log.record
                begins_at = (
                    await self._begins_at(log, end, is_new=bool(before.logs))
                    if name not in before.logs
                    else 0
                )
                return LogEnds(
                    record.identity.hex(),
                    record.first_position,
                    end,
                    record.end_position is not None,
                    begins_at,
                )

            return dict(zip(names, await for_all(ends, names), strict=True))

    async def _begins_at(self, log: Log, end: int, *, is_new: bool) -> int:
        """Returns the position at which the stream begins to read a log. `is_new`: the log was added to the set after
        the stream had begun."""
        options = self._options
        if is_new:
            return 0
        if options.starts_at_end:
            return end
        if options.start_position is not None:
            await log.check_reaches(options.start_position)
            return options.start_position
        if options.times.start_us is not None:
            return await log.position_at(EPOCH + timedelta(microseconds=options.times.start_us))
        return log.record.first_position

    def _start(self, name: str, now: LogEnds, before: Delivered | None) -> int:
        """Returns the first position that was not delivered. Raises LedgerError if the stream cannot continue from
        there."""
        if before is not None and before.identity != now.identity:
            raise LedgerError(
                f"log {name} is not the log that was read up to position {before.stop - 1}: begin again with a new "
                "checkpointLocation"
            )
        start = now.begins_at if before is None else before.stop
        if now.is_final and now.end < start:
            raise LedgerError(
                f"log {name} ends at position {now.end}, but was read up to {start - 1}: its metadata was rolled back "
                "to an older copy; begin again with a new checkpointLocation, or from a position that is known to exist"
            )
        if start < now.first_position:
            self._go_on_without(describe_truncated(name, start, now.first_position))
        return max(start, now.first_position)

    def _stops(
        self, ends: Mapping[str, LogEnds], starts: Mapping[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        """Returns, for each log, the position after its last record in the next batch."""
        until = {name: one.end for name, one in ends.items()} if self._until is None else self._until
        there = [max(0, min(one.end, until.get(name, 0)) - starts[name]) for name, one in ends.items()]
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else sum(there)
        return {name: starts[name] + count for name, count in zip(ends, shares(there, most), strict=True)}

    # --- one batch ----------------------------------------------------------------------------------

    async def _tasks(self, uri: str, batch: LogsOffset) -> list[TaskPartition[LogRange]]:
        wanted = [name for name, one in batch.logs.items() if one.start < one.stop]
        async with LedgerClient(uri) as client:

            async def parts_of(name: str) -> list[Part]:
                log = await client.log(name, password=self._access.password)
                return await self._parts_of(log, batch.logs[name])

            parts = [part for found in await for_all(parts_of, wanted) for part in found]
        extents, gone = await extents_of(uri, parts, self._access.password)
        if gone:
            self._go_on_without(describe_deleted(gone))
        tasks = await tasks_of(uri, self._options, extents, parts)
        return [TaskPartition(ranges) for ranges in tasks]

    async def _parts_of(self, log: Log, batch: Delivered) -> list[Part]:
        segments = [one async for one in log.segments(batch.start)]
        record = log.record
        if record.identity.hex() != batch.identity:
            raise LedgerError(f"log {log.name} is not the log for which this batch was planned")
        if batch.start < record.first_position:
            self._go_on_without(
                describe_truncated(log.name, batch.start, min(batch.stop, record.first_position))
            )
        start = max(batch.start, record.first_position)
        return parts_between(log.name, segments, start, batch.stop) if start < batch.stop else []


def describe_truncated(log: str, start: int, stop: int) -> str:
    return f"positions {start} to {stop - 1} of log {log} were truncated before the stream had read them"
