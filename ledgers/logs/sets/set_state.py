"""The record of a set of logs, as last read or changed."""

from __future__ import annotations

from metadata.records.logs.log_set_record import LogSetRecord, LogSetStore, VersionedLogSet
from metadata.version import Version

from ...record_change import ClientRecord, metadata_errors
from ..errors import NoSuchLogSet


class LogSetState(ClientRecord[LogSetRecord]):
    """One set's record. Calls may raise MetadataUnavailable, and raise NoSuchLogSet once the set is deleted (with
    `deleted_too`, only once its record is gone)."""

    def __init__(
        self, store: LogSetStore, name: str, found: VersionedLogSet, *, deleted_too: bool = False
    ) -> None:
        super().__init__(found)
        self._store = store
        self.name = name
        self._deleted_too = deleted_too

    @property
    def what(self) -> str:
        return f"set {self.name!r}"

    async def _read(self) -> VersionedLogSet:
        with metadata_errors():
            found = await self._store.read(self.name)
        if found is None or (found.record.deleted and not self._deleted_too):
            raise NoSuchLogSet(self.name)
        if found.record.model.identity != self.record.model.identity:  # the set was deleted and created again
            raise NoSuchLogSet(self.name)
        return found

    async def _replaced(self, wanted: LogSetRecord, version: Version) -> VersionedLogSet:
        return await self._store.change(self.name, wanted, version)
