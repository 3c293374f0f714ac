"""Stores the records of a journal's acceptor: reads them, changes them by compare-and-swap, lists them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from .. import keys, settled_writes
from ..errors import KeyConflict
from ..settled_writes import SETTLE_SECONDS_MAX
from ..store import MetadataStore, list_all
from ..version import Version
from .journal_record import (
    FinalizedSegment,
    JournalState,
    decode_finalized,
    decode_state,
    encode_finalized,
    encode_state,
)


@dataclass(frozen=True, slots=True)
class VersionedState:
    """An acceptor's state, and the version that a change must specify."""

    state: JournalState
    version: Version


@dataclass(frozen=True, slots=True)
class VersionedSegment:
    """A finalized segment's record and its version."""

    segment: FinalizedSegment
    version: Version


class JournalStore:
    """One acceptor's records. Every change is one compare-and-swap with a nonce (rule M1)."""

    def __init__(self, store: MetadataStore, journal_id: str, acceptor: str) -> None:
        self._store = store
        self._journal_id = journal_id
        self._acceptor = acceptor
        self._state_key = keys.journal_state(journal_id, acceptor)
        self._segments_prefix = keys.journal_segments(journal_id, acceptor)

    async def read_state(self) -> VersionedState | None:
        """Reads the state; returns None if the acceptor does not have one yet."""
        found = await self._store.get(self._state_key)
        if found is None:
            return None
        return VersionedState(decode_state(self._state_key, found.value), found.version)

    async def swap_state(
        self, state: JournalState, version: Version | None, *, seconds_max: float = SETTLE_SECONDS_MAX
    ) -> VersionedState | None:
        """Replaces the state at `version` (None: it does not exist yet) by compare-and-swap; returns None on a
        conflict."""
        mine = replace(state, nonce=settled_writes.new_nonce())
        key, value = self._state_key, encode_state(mine)
        try:
            stands = await settled_writes.write(self._store, key, value, version, seconds_max=seconds_max)
        except KeyConflict:
            return None
        return VersionedState(mine, stands)

    async def read_segment(self, start_txid: int) -> VersionedSegment | None:
        """Reads the finalized segment that begins with `start_txid`."""
        key = self._key(start_txid)
        found = await self._store.get(key)
        if found is None:
            return None
        return VersionedSegment(decode_finalized(key, found.value), found.version)

    async def put_segment(
        self, segment: FinalizedSegment, version: Version | None, *, seconds_max: float = SETTLE_SECONDS_MAX
    ) -> bool:
        """Creates a record, or replaces the one at `version`; returns False on a conflict."""
        key, value = self._key(segment.start_txid), encode_finalized(segment, settled_writes.new_nonce())
        try:
            await settled_writes.write(self._store, key, value, version, seconds_max=seconds_max)
        except KeyConflict:
            return False
        return True

    async def delete_segment(self, found: VersionedSegment) -> None:
        """Deletes the given record. If it has been deleted or changed in the meantime, does nothing."""
        key = self._key(found.segment.start_txid)
        await settled_writes.delete_unless_changed(self._store, key, found.version)

    async def list_segments(self) -> AsyncIterator[VersionedSegment]:
        """Yields all records in order of txid. A listing that fails part-way raises an error; it is never silently cut
        short."""
        async for item in list_all(self._store, self._segments_prefix):
            yield VersionedSegment(decode_finalized(item.key, item.value), item.version)

    def _key(self, start_txid: int) -> str:
        return keys.journal_segment(self._journal_id, self._acceptor, start_txid)


async def list_journals(store: MetadataStore) -> AsyncIterator[tuple[str, str]]:
    """Yields every acceptor of every journal, as (journal id, acceptor), in order; skips other keys."""
    async for item in list_all(store, keys.JOURNALS):
        match item.key.removeprefix(keys.JOURNALS).split("/"):
            case [journal_id, acceptor, "state"] if keys.is_name(journal_id) and keys.is_name(acceptor):
                yield journal_id, acceptor
