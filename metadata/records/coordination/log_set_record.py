"""Sets of logs: over how many logs keys are spread, and where the logs stood when they became more. Changed by
compare-and-swap only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore, Versioned, list_all
from .. import records_pb2 as pb
from ..unreadable import parsed
from .transitions import Standing

FORMAT_VERSION = 1

LOGS_MAX = 1024
"""Logs of a set: each has a writer of its own, and a cursor for each group of consumers."""


@dataclass(frozen=True, slots=True)
class LogSetRecord:
    """`growths`: for each time that the set grew the ends of the logs that it had. A log of these has keys as they were
    spread before up to its end, and from there on as they were spread afterwards. `growing_to`: while it grows, to how
    many; nobody writes then. `deleted`: its logs are being deleted, and nobody uses it any more."""

    logs: int
    growths: tuple[tuple[int, ...], ...] = ()
    growing_to: int = 0
    deleted: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.logs <= LOGS_MAX:
            raise ValueError(f"a set has 1 to {LOGS_MAX} logs, not {self.logs}")
        if any(end < 0 for ends in self.growths for end in ends):
            raise ValueError("a log ended before position 0")
        counts = [
            *(len(ends) for ends in self.growths),
            self.logs,
            *([self.growing_to] if self.growing_to else []),
        ]
        if any(more <= less or more % less for less, more in zip(counts, counts[1:], strict=False)):
            raise ValueError(f"logs became {counts}: a set grows to a multiple of what it had")

    def to_grow(self, logs: int) -> LogSetRecord:
        """Begins to grow. Raises ValueError unless that is a multiple of the logs there are, and nothing else grows."""
        if self.growing_to not in (0, logs):
            raise ValueError(f"the set grows to {self.growing_to} logs already")
        if not self.logs < logs <= LOGS_MAX or logs % self.logs:
            raise ValueError(
                f"{self.logs} logs grow to a multiple of that, {LOGS_MAX} at most, and not to {logs}: then the keys of "
                "each new log come from one log"
            )
        return replace(self, growing_to=logs)

    def grown(self, ends: tuple[int, ...]) -> LogSetRecord:
        """Has grown; the logs that there were ended here."""
        assert self.growing_to and len(ends) == self.logs
        return LogSetRecord(self.growing_to, (*self.growths, ends))

    def given_up(self) -> LogSetRecord:
        """Nobody opens it from now on."""
        return replace(self, deleted=True)

    def log_of(self, name: str, log: str) -> int | None:
        """The number of a log in this set of this name; None where it is another one."""
        of, _, told = log.rpartition(".")
        number = int(told) if told.isdecimal() else -1
        is_one = of == name and 0 <= number < max(self.logs, self.growing_to) and told == str(number)
        return number if is_one else None

    def before(self, log: int) -> tuple[int, int] | None:
        """The log that keys of this one come from, and up to where it has to be used first; None where none do."""
        for ends in reversed(self.growths):
            if log >= len(ends):
                return log % len(ends), ends[log % len(ends)]
        return None


VersionedLogSet = Standing[LogSetRecord]


class LogSetStore:
    """The sets of a cluster. All methods raise MetadataError."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self, name: str) -> VersionedLogSet | None:
        found = await self._store.get(keys.log_set(name))
        return None if found is None else _decoded(found)

    async def list(self) -> AsyncIterator[tuple[str, LogSetRecord]]:
        """All sets that are not deleted, by name. A listing that fails part-way raises."""
        async for item in list_all(self._store, keys.LOG_SETS):
            record = _decoded(item).record
            if not record.deleted:
                yield item.key.removeprefix(keys.LOG_SETS), record

    async def create(self, name: str, record: LogSetRecord) -> VersionedLogSet:
        """Raises KeyExists."""
        return Standing(record, await settled_writes.create(self._store, keys.log_set(name), encode(record)))

    async def change(self, name: str, record: LogSetRecord, version: int) -> VersionedLogSet:
        """Raises VersionConflict, NoSuchKey."""
        key, value = keys.log_set(name), encode(record)
        return Standing(record, await settled_writes.replace(self._store, key, value, version))

    async def forget(self, name: str, version: int) -> None:
        """Deletes this version of a record, of which nothing else is left."""
        await settled_writes.delete_unless_changed(self._store, keys.log_set(name), version)


def encode(record: LogSetRecord) -> bytes:
    """Encodes the value of `logsets/<name>`."""
    return pb.LogSet(
        format_version=FORMAT_VERSION,
        logs=record.logs,
        growths=[pb.LogSetGrowth(ends=ends) for ends in record.growths],
        growing_to=record.growing_to,
        nonce=settled_writes.new_nonce(),
        deleted=record.deleted,
    ).SerializeToString()


def decode(key: str, value: bytes) -> LogSetRecord:
    """Decodes it. Raises BadRecord."""
    message = parsed(pb.LogSet, key, value, FORMAT_VERSION, "set")
    try:
        return LogSetRecord(
            message.logs,
            tuple(tuple(one.ends) for one in message.growths),
            message.growing_to,
            message.deleted,
        )
    except ValueError as error:
        raise BadRecord(key, str(error)) from error


def _decoded(item: Versioned) -> VersionedLogSet:
    return Standing(decode(item.key, item.value), item.version)
