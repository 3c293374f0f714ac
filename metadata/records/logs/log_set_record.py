"""Sets of logs: the number of logs over which keys are spread, and the position where each log ended when the set grew.
Changed only by compare-and-swap."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore, Versioned, list_all
from ...version import Version, encode_record
from .. import records_pb2 as pb
from ..coordination.transitions import Standing
from ..record_decoding import parse_record
from . import log_codec
from .log_record import LogRecord, SetMember

FORMAT_VERSION = 1

LOGS_MAX = 1024
"""Maximum number of logs in a set. It is limited because each log has its own writer, and a cursor for each group of
consumers."""


@dataclass(frozen=True, slots=True)
class LogSetRecord:
    """`growths`: for each expansion of the set, the positions at which its logs ended at that time. Before that
    position, a log contains the keys that it had before the expansion; from there on, those that it had afterwards.
    `growing_to`: the new number of logs during an expansion, while no client writes. `deleted`: the set's logs are
    being deleted, and no client uses the set.

    `model`: the shape, segments, owner, retention and legal hold of all the set's logs; its identity and its name are
    those of the set. It is the wanted state: a log's own record contains the settings in force for the log.
    `is_unsettled`: some log may still have to be created, or to get the wanted settings. `generation` rises with each
    change that the logs get, so that no log returns to earlier settings.
    """

    logs: int
    model: LogRecord
    growths: tuple[tuple[int, ...], ...] = ()
    growing_to: int = 0
    deleted: bool = False
    generation: int = 0
    is_unsettled: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.logs <= LOGS_MAX:
            raise ValueError(f"a set has 1 to {LOGS_MAX} logs, not {self.logs}")
        if any(end < 0 for ends in self.growths for end in ends):
            raise ValueError("a log cannot end before position 0")
        counts = [
            *(len(ends) for ends in self.growths),
            self.logs,
            *([self.growing_to] if self.growing_to else []),
        ]
        if any(more <= less or more % less for less, more in zip(counts, counts[1:], strict=False)):
            raise ValueError(f"invalid numbers of logs {counts}: each must be a multiple of the previous one")

    def to_grow(self, logs: int) -> LogSetRecord:
        """Begins an expansion. Raises ValueError if `logs` is not a multiple of the current number, or if an expansion
        to another number is in progress."""
        if self.growing_to not in (0, logs):
            raise ValueError(f"the set is already growing to {self.growing_to} logs")
        if not self.logs < logs <= LOGS_MAX or logs % self.logs:
            raise ValueError(
                f"{self.logs} logs can only grow to a multiple of that number, at most {LOGS_MAX}, not to {logs}, "
                "so that the keys of each new log come from one log"
            )
        return self if self.growing_to else replace(self, growing_to=logs, generation=self.generation + 1)

    def grown(self, ends: tuple[int, ...]) -> LogSetRecord:
        """Completes an expansion; `ends` are the ends of the logs that the set had before."""
        assert self.growing_to and len(ends) == self.logs
        growths = (*self.growths, ends)
        return replace(self, logs=self.growing_to, growths=growths, growing_to=0, is_unsettled=False)

    def wanting(self, model: LogRecord) -> LogSetRecord:
        """Sets the model that all logs follow from now on."""
        if model == self.model:
            return self
        return replace(self, model=model, generation=self.generation + 1, is_unsettled=True)

    def settled(self) -> LogSetRecord:
        """Records that all logs have the wanted settings."""
        return replace(self, is_unsettled=False)

    def member(self, number: int) -> SetMember:
        """Returns the place of log `number` in the set."""
        logs = max(self.logs, self.growing_to)
        return SetMember(self.model.identity, number, logs, self.generation)

    def given_up(self) -> LogSetRecord:
        """Marks the set as deleted: no client opens it from now on."""
        return replace(self, deleted=True)

    def before(self, log: int) -> tuple[int, int] | None:
        """Returns the log that had this log's keys earlier, and the position up to which that log must be read first;
        None if there is no such log."""
        for ends in reversed(self.growths):
            if log >= len(ends):
                return log % len(ends), ends[log % len(ends)]
        return None


VersionedLogSet = Standing[LogSetRecord]


def log_name(log_set: str, number: int) -> str:
    """Returns the name of a set's log. Raises ValueError if it would be too long."""
    return keys.check_name(f"{log_set}.{number}")


def made_again(members: Iterable[LogRecord]) -> LogSetRecord:
    """Rebuilds the record of a set from its remaining logs, on the basis of the log with the latest generation. The
    next client that opens the set creates the missing logs. The positions where the logs ended when the set grew are
    lost."""
    latest = max(members, key=lambda one: one.member.generation if one.member else -1)
    member, name = latest.member, latest.log_set
    assert member is not None and name is not None
    model = LogRecord(
        member.log_set,
        name,
        latest.settings,
        owner=latest.owner,
        legal_hold=latest.legal_hold,
        created_ms=latest.created_ms,
        retention=latest.retention,
    )
    return LogSetRecord(member.logs, model, generation=member.generation + 1, is_unsettled=True)


class LogSetStore:
    """The sets of a cluster. All methods raise MetadataError."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self, name: str) -> VersionedLogSet | None:
        found = await self._store.get(keys.log_set(name))
        return None if found is None else _decoded(found)

    async def list(self) -> AsyncIterator[tuple[str, LogSetRecord]]:
        """Yields all sets that are not deleted, sorted by name. A listing that fails part-way raises an error."""
        async for item in list_all(self._store, keys.LOG_SETS):
            record = _decoded(item).record
            if not record.deleted:
                yield item.key.removeprefix(keys.LOG_SETS), record

    async def create(self, name: str, record: LogSetRecord) -> VersionedLogSet:
        """Creates a set. Raises KeyExists."""
        return Standing(record, await settled_writes.create(self._store, keys.log_set(name), encode(record)))

    async def change(self, name: str, record: LogSetRecord, version: Version) -> VersionedLogSet:
        """Replaces a set's record. Raises KeyConflict."""
        key, value = keys.log_set(name), encode(record)
        return Standing(record, await settled_writes.replace(self._store, key, value, version))

    async def forget(self, name: str, version: Version) -> None:
        """Deletes this version of the record, once all logs of the set have been deleted."""
        await settled_writes.delete_unless_changed(self._store, keys.log_set(name), version)


def encode(record: LogSetRecord) -> bytes:
    """Encodes the value of `logsets/<name>`."""
    return encode_record(
        pb.LogSet(
            format_version=FORMAT_VERSION,
            logs=record.logs,
            growths=[pb.LogSetGrowth(ends=ends) for ends in record.growths],
            growing_to=record.growing_to,
            nonce=settled_writes.new_nonce(),
            deleted=record.deleted,
            model=log_codec.encode(record.model),
            generation=record.generation,
            unsettled=record.is_unsettled,
        )
    )


def decode(key: str, value: bytes) -> LogSetRecord:
    """Decodes a set's record. Raises BadRecord."""
    message = parse_record(pb.LogSet, key, value, FORMAT_VERSION, "set")
    try:
        return LogSetRecord(
            message.logs,
            log_codec.decode(key, message.model),
            tuple(tuple(one.ends) for one in message.growths),
            message.growing_to,
            message.deleted,
            message.generation,
            message.unsettled,
        )
    except ValueError as error:
        raise BadRecord(key, str(error)) from error


def _decoded(item: Versioned) -> VersionedLogSet:
    return Standing(decode(item.key, item.value), item.version)
