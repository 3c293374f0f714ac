"""Reports the ledgers that a log shares with other logs, and the bytes that its deletion would free (rule L13)."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.segment import Segment


@dataclass(frozen=True, slots=True)
class SharedWith:
    """A shared range: positions `start` … `stop` - 1 of the log are in ledgers that the other log also has."""

    log: str
    """The name of the other log."""
    start: int
    """The first shared position."""
    stop: int
    """The position after the last shared one."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The logs with which a log shares ledgers, and the sizes of its own part and of the shared part. Sizes count one
    copy of each record; the segment that is being written is in neither part."""

    logs: tuple[SharedWith, ...]
    """The logs that have some of the same ledgers."""
    own_bytes: int
    """Bytes of records that only this log needs; deleting the log frees them."""
    shared_bytes: int
    """Bytes of records that other logs need as well."""


async def sharing_of(logs: LogStore, record: LogRecord) -> Sharing:
    """Returns how a log shares ledgers with other logs. Raises MetadataError."""
    makers = {one.identity: await _read(logs, one.identity) for one in record.makers}
    found = [
        SharedWith(other.name, max(fork.start, record.first_position), fork.stop)
        for fork in record.forks
        if (other := await _read(logs, fork.identity)) is not None
    ]
    start = record.first_position
    for one in record.makers:
        maker = makers[one.identity]
        if maker is not None and not maker.deleted and max(start, maker.first_position) < one.stop:
            found.append(SharedWith(maker.name, max(start, maker.first_position), one.stop))
        start = max(start, one.stop)
    own = shared = 0
    async for segment in logs.segments(record):
        maker = makers.get(record.maker_of(segment.first_position), record)
        if maker is None or not _is_shared(record, maker, segment):
            own += segment.length_bytes
        else:
            shared += segment.length_bytes
    return Sharing(tuple(found), own, shared)


def _is_shared(log: LogRecord, maker: LogRecord, segment: Segment) -> bool:
    others = [one for one in maker.forks if one.identity != log.identity]
    if any(one.needs(segment.first_position, segment.end_position) for one in others):
        return True
    is_left = segment.end_position is None or segment.end_position > maker.first_position
    return maker.identity != log.identity and not maker.deleted and is_left


async def _read(logs: LogStore, identity: bytes) -> LogRecord | None:
    found = await logs.read(identity)
    return None if found is None else found.record
