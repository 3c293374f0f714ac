"""A cursor's record, as last read or changed."""

from __future__ import annotations

from metadata.records.coordination.cursor_record import CursorRecord, CursorStore, VersionedCursor
from metadata.version import Version

from ...record_change import ClientRecord, metadata_errors
from .errors import NoSuchCursor


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
