"""Cursors: the positions of a log's readers. Changed only by compare-and-swap, and moved back only by a seek."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore, Versioned, list_all
from ...version import Version, encode_record
from .. import records_pb2 as pb
from ..record_decoding import parse_record
from .transitions import Standing

FORMAT_VERSION = 1

CONSUMER_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True)
class CursorRecord:
    """A cursor. `position`: the position of the next record that its reader has to read.

    `generation`: incremented by each seek, so that a commit from before the seek is recognized. `epoch`: incremented by
    each consumer that takes over the cursor, so that a commit by an earlier consumer is recognized. `changed_ms`: when
    the cursor was last moved.
    """

    position: int
    generation: int = 0
    epoch: int = 0
    consumer: str = ""
    changed_ms: int = 0

    def __post_init__(self) -> None:
        if min(self.position, self.generation, self.epoch, self.changed_ms) < 0:
            raise ValueError("a cursor's record contains a negative number")

    def committed(self, position: int, now_ms: int) -> CursorRecord:
        """Commits all records before the position. Never moves the cursor back."""
        if position <= self.position:
            return self
        return replace(self, position=position, changed_ms=now_ms)

    def sought(self, position: int, now_ms: int) -> CursorRecord:
        """Moves the cursor backward or forward; records that were read earlier can no longer be committed."""
        return replace(self, position=position, generation=self.generation + 1, changed_ms=now_ms)

    def taken_over(self, consumer: str) -> CursorRecord:
        """Assigns the cursor to a consumer; the previous consumer can no longer commit."""
        return replace(self, epoch=self.epoch + 1, consumer=consumer[:CONSUMER_CHARACTERS_MAX])


VersionedCursor = Standing[CursorRecord]


class CursorStore:
    """The cursors of one log. All methods raise MetadataError."""

    def __init__(self, store: MetadataStore, log: bytes) -> None:
        self.store = store
        self._log = log

    async def create(self, name: str, record: CursorRecord) -> VersionedCursor:
        """Creates a cursor. Raises KeyExists."""
        version = await settled_writes.create(self.store, keys.cursor(self._log, name), _encode(record))
        return Standing(record, version)

    async def read(self, name: str) -> VersionedCursor | None:
        found = await self.store.get(keys.cursor(self._log, name))
        return None if found is None else _decoded(found)

    async def change(self, name: str, record: CursorRecord, version: Version) -> VersionedCursor:
        """Replaces the record. Raises KeyConflict, or its subclass NoSuchKey if the cursor was deleted."""
        key = keys.cursor(self._log, name)
        return Standing(record, await settled_writes.replace(self.store, key, _encode(record), version))

    async def list(self) -> AsyncIterator[tuple[str, CursorRecord]]:
        """Yields all cursors with their names, in order of name. A listing that fails part-way raises an error."""
        prefix = keys.cursors(self._log)
        async for item in list_all(self.store, prefix):
            yield item.key.removeprefix(prefix), _decoded(item).record

    async def forget(self, name: str) -> bool:
        """Deletes a cursor; returns False if it does not exist."""
        return await settled_writes.delete(self.store, keys.cursor(self._log, name))

    async def forget_all(self) -> None:
        """Deletes all cursors of a deleted log."""
        async for name, _ in self.list():
            await self.forget(name)


def decode(key: str, value: bytes) -> CursorRecord:
    """Decodes a cursor. Raises BadRecord."""
    message = parse_record(pb.Cursor, key, value, FORMAT_VERSION, "cursor")
    try:
        return CursorRecord(
            message.position, message.generation, message.epoch, message.consumer, message.changed_ms
        )
    except ValueError as error:
        raise BadRecord(key, str(error)) from error


def _decoded(item: Versioned) -> VersionedCursor:
    return Standing(decode(item.key, item.value), item.version)


def _encode(record: CursorRecord) -> bytes:
    return encode_record(
        pb.Cursor(
            format_version=FORMAT_VERSION,
            position=record.position,
            generation=record.generation,
            epoch=record.epoch,
            consumer=record.consumer,
            changed_ms=record.changed_ms,
            nonce=settled_writes.new_nonce(),
        )
    )
