"""Stores the records of logs: names, records changed by compare-and-swap, and pages of earlier segments."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from ... import keys, settled_writes
from ...store import EventKind, MetadataStore, Versioned, list_all
from ...version import Version
from ..coordination.transitions import Standing
from . import log_codec
from .log_record import LogRecord
from .segment import Segment

VersionedLog = Standing[LogRecord]

RESTORES_FOLLOWED_MAX = 100
"""Maximum number of times that a log can be restored before the key of its name has to be rewritten."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Earlier segments of a log, closed and in order, and the version that a change must specify."""

    segments: tuple[Segment, ...]
    key: str
    version: Version

    def ending_in(self, behind: int, through: int) -> list[Segment]:
        """Returns the segments whose end is after `behind`, and not after `through`."""
        return [s for s in self.segments if behind < (s.end_position or 0) <= through]


class LogStore:
    """All logs of a cluster. Every change is one compare-and-swap with a nonce (rule M1). All methods raise
    MetadataError."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store

    # --- names ------------------------------------------------------------------------------------

    # A key leads from a name to a log, and the log's record confirms that name. If it does not, or if the log is
    # deleted, the name is free. So a log has one name at any time, and one change to its record renames it.

    async def named(self, name: str) -> VersionedLog | None:
        """Returns the log with this name, which may be in the process of deletion; None if the name is free."""
        found = await self.store.get(keys.log_name(name))
        return None if found is None else await self.led_to(found)

    async def led_to(self, item: Versioned) -> VersionedLog | None:
        """Returns the log that has this key's name; None if the name is free. After a log is restored, the key may
        still lead to the former log, whose record points to the log that now has the name (rule L14)."""
        name = item.key.removeprefix(keys.LOG_NAMES)
        log = await self.read(log_codec.decode_name(item.key, item.value))
        for _ in range(RESTORES_FOLLOWED_MAX):
            if log is None or log.record.name == name:
                return log
            successor = log.record.successor
            if successor is None or successor.name != name:
                return None
            log = await self.read(successor.identity)
        return None

    async def give_name(self, name: str, identity: bytes) -> bool:
        """Makes a name lead to a log whose record already contains it as the current or next name; returns False if the
        name belongs to another log.

        Writes the key even if it already leads there, so that a client that found the name free a moment ago fails to
        take it.
        """
        key, value = keys.log_name(name), log_codec.encode_name(identity, settled_writes.new_nonce())

        async def attempt(found: Versioned | None) -> bool:
            if found is not None and not await self._may_lead_to(identity, found):
                return False
            await settled_writes.write(self.store, key, value, None if found is None else found.version)
            return True

        read = partial(self.store.get, key)
        return await settled_writes.until_changed(f"name {name!r}", await read(), attempt, read)

    async def _may_lead_to(self, identity: bytes, item: Versioned) -> bool:
        """Returns whether no other log has the name of this key. Cancels another log's rename to this name, unless the
        rename has already been completed. Raises KeyConflict."""
        leads_to = log_codec.decode_name(item.key, item.value)
        if leads_to == identity:
            return True
        has_it = await self.led_to(item)
        if has_it is not None:
            return has_it.record.deleted or has_it.record.identity == identity
        # read again: the log may have been given the name since the last read
        log = await self.read(leads_to)
        if log is None or log.record.deleted:
            return True
        name = item.key.removeprefix(keys.LOG_NAMES)
        if log.record.next_name == name:
            await self.change(log.record.to_be_named(""), log.version, while_held=True)
        return log.record.name != name

    async def take_name(self, name: str, identity: bytes) -> None:
        """Deletes the key of a name that has become free. Keeps the key if it now leads to another log, or if the log
        has taken the name again; also while a hold is in place, because in an older copy of the metadata the log may
        still have the name. A key that is left over does no harm: the log's record does not confirm it."""
        found = await self.store.get(keys.log_name(name))
        leads_there = found is not None and log_codec.decode_name(found.key, found.value) == identity
        log = await self.read(identity)
        has_it = (
            log is not None and not log.record.deleted and name in (log.record.name, log.record.next_name)
        )
        if found is not None and leads_there and not has_it:
            await settled_writes.delete_unless_changed(
                self.store, found.key, found.version, unless=keys.RESTORED
            )

    async def by_name(self) -> AsyncIterator[VersionedLog]:
        """Yields all logs that have a name and are not deleted, sorted by name. A listing that fails part-way raises an
        error."""
        async for item in list_all(self.store, keys.LOG_NAMES):
            found = await self.led_to(item)
            if found is not None and not found.record.deleted:
                yield found

    # --- records ----------------------------------------------------------------------------------

    async def read(self, identity: bytes) -> VersionedLog | None:
        """Reads the latest record; returns None if it does not exist or was deleted."""
        found = await self.store.get(keys.log(identity))
        return None if found is None else _decoded(found)

    async def create(self, record: LogRecord, *, while_held: bool = False) -> VersionedLog:
        """Creates a record; its log has no name yet. Raises MetadataRestored until an operator accepts restored
        metadata, unless `while_held` is set because ledgers prove that the log exists."""
        mine = replace(record, nonce=settled_writes.new_nonce())
        key, value = keys.log(record.identity), log_codec.encode(mine)
        unless = None if while_held else keys.RESTORED
        return Standing(mine, await settled_writes.create(self.store, key, value, unless=unless))

    async def change(self, record: LogRecord, version: Version, *, while_held: bool = False) -> VersionedLog:
        """Replaces the record at `version`. Raises KeyConflict: read again. Raises MetadataRestored as `create` does,
        because a log whose ledgers may contain more records must not be written to."""
        mine = replace(record, nonce=settled_writes.new_nonce())
        key, value = keys.log(record.identity), log_codec.encode(mine)
        unless = None if while_held else keys.RESTORED
        return Standing(mine, await settled_writes.replace(self.store, key, value, version, unless=unless))

    async def forget(self, found: VersionedLog) -> None:
        """Deletes the record of a deleted log once all its other data has been deleted."""
        assert found.record.deleted
        if (successor := found.record.successor) is not None:
            await self.give_name(successor.name, successor.identity)
        await settled_writes.delete_unless_changed(self.store, keys.log(found.record.identity), found.version)

    async def records(self) -> AsyncIterator[VersionedLog]:
        """Yields all records, including those of deleted logs. A listing that fails part-way raises an error."""
        async for item in list_all(self.store, keys.LOGS):
            yield _decoded(item)

    async def watch(
        self, identity: bytes, *, after_revision: int
    ) -> AsyncGenerator[VersionedLog | None, None]:
        """Yields every later version of one record; None when it is deleted."""
        key = keys.log(identity)
        async with aclosing(self.store.watch(key, after_revision=after_revision)) as events:
            async for event in events:
                if event.kind is EventKind.DELETE:
                    yield None
                else:
                    yield Standing(log_codec.decode(key, event.value), event.version)

    # --- pages of earlier segments ------------------------------------------------------------------

    async def put_page(self, identity: bytes, segments: tuple[Segment, ...]) -> None:
        """Writes a page, and the key that finds it by time. If the page already exists, a writer that has since ended
        wrote it, with the same segments."""
        end, nonce = segments[-1].end_position, settled_writes.new_nonce()
        assert end is not None
        page = keys.log_page(identity, end), log_codec.encode_page(segments, nonce)
        time_key = keys.log_time(identity, segments[-1].ended_us, end)
        for key, value in (page, (time_key, log_codec.encode_page_time(end, nonce))):
            await settled_writes.create_unless_there(self.store, key, value)

    async def page_of(self, identity: bytes, position: int) -> LogPage | None:
        """Returns the page that holds the position, in one look-up; None if no page holds it."""
        prefix = keys.log_pages(identity)
        found = await self.store.list_page(prefix, after=keys.log_page(identity, position), limit=1)
        return _page(found.items[0]) if found.items else None

    async def page_of_time(self, identity: bytes, time_us: int) -> LogPage | None:
        """Returns the first page with a record of this time or later, in two look-ups; None if there is no such page.

        If a page is deleted while a slow writer is writing it, the key that finds it may remain: in that case the next
        page is returned.
        """
        after = keys.log_time(identity, time_us)
        async for found in list_all(self.store, keys.log_times(identity), after=after, limit=1):
            end = log_codec.decode_page_time(found.key, found.value)
            item = await self.store.get(keys.log_page(identity, end))
            if item is not None:
                return _page(item)
        return None

    async def pages(self, identity: bytes, position: int = 0) -> AsyncIterator[LogPage]:
        """Yields all pages, in order, beginning with the one that holds the position."""
        after = keys.log_page(identity, position)
        async for item in list_all(self.store, keys.log_pages(identity), after=after):
            yield _page(item)

    async def paged_segments(self, record: LogRecord, behind: int) -> AsyncIterator[Segment]:
        """Yields, in order, the segments in pages, from the first one that ends after the position `behind`. Yields
        each only once, although an unfinished page may contain segments that are also in the next page, or in the
        record itself."""
        async for page in self.pages(record.identity, behind):
            for segment in page.ending_in(behind, record.paged_through):
                behind = segment.end_position or behind
                yield segment

    async def segments(self, record: LogRecord, start: int = 0) -> AsyncIterator[Segment]:
        """Yields all segments with remaining records, in order, beginning with the one that holds `start`; the last one
        may be open."""
        behind = max(start, record.first_position)
        async for paged in self.paged_segments(record, behind):
            yield paged
        for segment in record.segments:
            if segment.end_position is None or segment.end_position > behind:
                yield segment

    async def drop_page(self, identity: bytes, page: LogPage) -> None:
        """Deletes a page whose ledgers have been deleted, and the key that finds it by time."""
        last = page.segments[-1]
        assert last.end_position is not None
        time = await self.store.get(keys.log_time(identity, last.ended_us, last.end_position))
        if time is not None:
            await settled_writes.delete_unless_changed(self.store, time.key, time.version)
        await settled_writes.delete_unless_changed(self.store, page.key, page.version)


def _decoded(found: Versioned) -> VersionedLog:
    return Standing(log_codec.decode(found.key, found.value), found.version)


def _page(found: Versioned) -> LogPage:
    return LogPage(log_codec.decode_page(found.key, found.value), found.key, found.version)
