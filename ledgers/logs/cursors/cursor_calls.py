"""Opens, lists and deletes the cursors of a log, and keeps the record of each open cursor."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from metadata import keys
from metadata.errors import KeyExists
from metadata.records.coordination.cursor_record import CursorRecord, CursorStore, VersionedCursor
from metadata.version import Version

from ...cluster import Cluster
from ...record_change import ClientRecord, metadata_errors
from ..errors import NoSuchCursor
from .start_position import ReadableLog, Where, position_of


class CursorState(ClientRecord[CursorRecord]):
    """One cursor's record. Raises NoSuchCursor once the cursor is deleted; also raises MetadataUnavailable."""

    def __init__(self, store: CursorStore, log: str, name: str, found: VersionedCursor) -> None:
        super().__init__(found)
        self._store = store
        self.log = log
        self.name = name

    @property
    def what(self) -> str:
        return f"cursor {self.name!r} of log {self.log!r}"

    async def _read(self) -> VersionedCursor:
        with metadata_errors():
            found = await self._store.read(self.name)
        if found is None:
            raise NoSuchCursor(self.log, self.name)
        return found

    async def _replaced(self, wanted: CursorRecord, version: Version) -> VersionedCursor:
        return await self._store.change(self.name, wanted, version)


class CursorCalls:
    """The cursors of one log."""

    def __init__(self, cluster: Cluster, log: ReadableLog, identity: bytes) -> None:
        self.cluster = cluster
        self.log = log
        self.identity = identity
        self._store = CursorStore(cluster.store, identity)

    async def state(self, name: str, start: Where | None) -> CursorState:
        """Opens a cursor. If the cursor does not exist, creates it at `start`, where it stays until it is moved; raises
        NoSuchCursor instead if no `start` is given."""
        keys.check_name(name)
        with metadata_errors():
            found = await self._store.read(name)
        if found is None:
            if start is None:
                raise NoSuchCursor(self.log.name, name)
            now_ms = time.time_ns() // 1_000_000
            found = await self._created(
                name, CursorRecord(await position_of(self.log, start), changed_ms=now_ms)
            )
        return CursorState(self._store, self.log.name, name, found)

    async def _created(self, name: str, record: CursorRecord) -> VersionedCursor:
        with metadata_errors():
            try:
                return await self._store.create(name, record)
            except KeyExists:  # another client has created the cursor in the meantime
                found = await self._store.read(name)
        if found is None:
            raise NoSuchCursor(self.log.name, name)
        return found

    async def list(self) -> AsyncIterator[tuple[str, CursorRecord]]:
        """Yields all cursors with their names, ordered by name."""
        await self.log.refresh()
        with metadata_errors():
            async for found in self._store.list():
                yield found

    async def delete(self, name: str) -> None:
        """Deletes a cursor. Raises NoSuchCursor."""
        with metadata_errors():
            if not await self._store.forget(keys.check_name(name)):
                raise NoSuchCursor(self.log.name, name)
