"""A cursor's record as it was read or changed last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metadata.errors import StoreUnavailable
from metadata.records.coordination import transitions
from metadata.records.coordination.cursor_record import CursorRecord, CursorStore, VersionedCursor

from ...errors import LedgerError
from ...record_change import metadata_errors, unavailable
from .errors import NoSuchCursor

CHANGES_MAX = 100
"""Attempts at one change: after each conflict somebody else has changed the cursor."""

Transition = Callable[[CursorRecord], CursorRecord]


class CursorState:
    """Raises NoSuchCursor once the cursor is deleted, MetadataUnavailable."""

    def __init__(self, store: CursorStore, log: str, name: str, found: VersionedCursor) -> None:
        self._store = store
        self._found = found
        self._turn = asyncio.Lock()  # changes of one program take turns instead of conflicting
        self.log = log
        self.name = name

    @property
    def record(self) -> CursorRecord:
        return self._found.record

    async def refresh(self) -> CursorRecord:
        """Reads the record again."""
        with metadata_errors():
            found = await self._store.read(self.name)
        if found is None:
            raise NoSuchCursor(self.log, self.name)
        if found.version >= self._found.version:
            self._found = found
        return self.record

    async def change(self, transition: Transition) -> CursorRecord:
        """Does one change; returns the record that stands. Where the transition raises, nothing is changed."""
        async with self._turn:
            try:
                stands = await transitions.change(
                    transition, lambda: self.record, self._write, self.refresh, CHANGES_MAX
                )
            except StoreUnavailable as error:
                raise unavailable(error) from error
        if stands is None:
            raise LedgerError(f"cursor {self.name!r} of log {self.log!r} keeps changing; try again")
        return stands

    async def _write(self, wanted: CursorRecord) -> None:
        self._found = await self._store.change(self.name, wanted, self._found.version)
