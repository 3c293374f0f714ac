"""Deletes the ledgers that logs no longer need, and then the records that refer to them.

An interrupted clean-up leaves these records, and the next one deletes the same ledgers again. Only ledgers whose own
metadata identifies the log are deleted, because after the metadata has reverted to an older copy, an id may belong to
another ledger (rule W8). A ledger that logs share is deleted by the last of them that releases it, according to the
record of the log that created it (rule L13).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ...audit import Act, record_audit
from ...errors import KeepsChanging, KeyConflict
from ...settled_writes import until_changed
from ...store import MetadataStore
from ..coordination.cursor_record import CursorStore
from ..ledger_record import LedgerRecord
from ..ledger_store import LedgerStore, VersionedRecord
from . import silences
from .log_ledgers import SegmentOf, is_needed, segment_of, segments_at
from .log_record import LogRecord
from .log_store import LogStore, VersionedLog
from .producer_record import ProducerStore
from .segment import POSITION_MAX, Segment

logger = logging.getLogger(__name__)

Look = Callable[[], Awaitable[LogRecord]]
"""Reads a log's current record."""

Change = Callable[[Callable[[LogRecord], LogRecord]], Awaitable[LogRecord]]
"""Changes a log's record by compare-and-swap: a transition is applied to the current record."""


class Cleaner:
    """One clean-up of one log, of at most `ledgers_max` ledgers. `who`: the client, for the audit log."""

    def __init__(self, logs: LogStore, look: Look, who: str = "", ledgers_max: int = sys.maxsize) -> None:
        self._logs = logs
        self._ledgers = LedgerStore(logs.store)
        self._look = look
        self._who = who
        self._left = ledgers_max
        self.deleted = 0
        """Ledgers that this clean-up has deleted."""

    async def clean(self, change: Change) -> bool:
        """Deletes the ledgers that hold no remaining records; returns whether all of them have been deleted.

        Also returns False during a legal hold. Raises MetadataError, and the errors of `look` and `change`.
        """
        await self._drop_snapshots(await self._look())
        # Obsolete ledgers are deleted before the pages, because a segment in a page that is also in the chain is needed
        # until it has left the chain.
        while (record := await change(_without_dead)).obsolete:
            await self.release(record)
            if not await self._delete_all(record.obsolete):
                return False
            await change(partial(LogRecord.without_obsolete, ledgers=record.obsolete))
        await self.release(record)
        if not await self._clean_pages(record):
            return False
        if record.makers != record.without_makers().makers:
            await self._end_makers(record)
            await change(LogRecord.without_makers)
        return True

    async def forget(self, found: VersionedLog) -> bool:
        """Deletes what is left of a deleted log whose last ledger is closed: ledgers, pages, name, record. Keeps the
        ledgers that its forks need, and the log's record for as long as the log has forks.

        Returns False if a ledger keeps changing; in that case, call it again later. Raises MetadataError.
        """
        logs, record = self._logs, found.record
        assert record.deleted
        await self.release(record)
        own = (*(segment.ledger_id for segment in record.segments), *record.obsolete)
        if not (await self._clean_pages(record) and await self._delete_all(own)):
            return False
        # Done before the name is deleted: from here on, the deletion of the last fork also deletes this record.
        if record.forks:
            await self._end(found)
        await logs.take_name(record.name, record.identity)
        await CursorStore(logs.store, record.identity).forget_all()
        await silences.forget(logs.store, record.identity)
        await ProducerStore(logs.store, record.identity).drop_all()
        await self._end_makers(record)
        await self._end(found)
        return True

    async def _end(self, found: VersionedLog) -> None:
        """Deletes the record of a log whose other data has been deleted. If the log has forks, keeps the record, but
        reduces it to what the forks need."""
        read = partial(self._logs.read, found.record.identity)

        async def attempt(now: VersionedLog | None) -> None:
            if now is None or (now.record.forks and now.record == now.record.emptied()):
                return
            if now.record.forks:
                await self._logs.change(now.record.emptied(), now.version)
            else:
                await self._logs.forget(now)

        await until_changed(f"the record of log {found.record.name!r}", found, attempt, read)

    async def release(self, record: LogRecord) -> None:
        """Releases ledgers that this log no longer needs: notes this in the records of the logs that created them.
        Called before anything is deleted."""
        for identity in dict.fromkeys(one.identity for one in record.makers):
            await self._release_of(identity, record)

    async def _release_of(self, maker: bytes, record: LogRecord) -> None:
        start = POSITION_MAX if record.deleted else record.first_position
        read = partial(self._logs.read, maker)

        async def attempt(found: VersionedLog | None) -> None:
            if found is None:
                return
            released = found.record.released(record.identity, start)
            if released != found.record:
                await self._logs.change(released, found.version)

        await until_changed(f"the record of log {maker.hex()}", await read(), attempt, read)

    async def _end_makers(self, record: LogRecord) -> None:
        """Deletes the records of deleted logs that created ledgers of this log, if they have no forks left."""
        for identity in dict.fromkeys(one.identity for one in record.makers):
            found = await self._logs.read(identity)
            if found is not None and found.record.is_done:
                await self._logs.forget(found)

    async def _drop_snapshots(self, record: LogRecord) -> None:
        """Deletes the snapshots of producers at positions before the last segment, because they are no longer
        needed."""
        if record.producers_from is not None:
            begins = record.paged_through if record.last is None else record.last.first_position
            await ProducerStore(self._logs.store, record.identity).drop_before(begins)

    async def _clean_pages(self, record: LogRecord) -> bool:
        """Deletes pages without remaining records, along with their ledgers. From the first page that still has
        remaining records, deletes only the ledgers that have none."""
        async for page in self._logs.pages(record.identity):
            dead = [s.ledger_id for s in page.segments if record.gave_up(s)]
            if not await self._delete_all(dead, page.segments):
                return False
            if len(dead) < len(page.segments):
                break
            await self._logs.drop_page(record.identity, page)
        return True

    async def _delete_all(self, ledger_ids: Iterable[int], segments: Sequence[Segment] = ()) -> bool:
        """Deletes ledgers, unless a hold has begun or the limit of the clean-up is reached."""
        for ledger_id in ledger_ids:
            if self._left == 0 or not await self._delete(ledger_id, segments):
                return False
            self._left -= 1
        return True

    async def _delete(self, ledger_id: int, segments: Sequence[Segment]) -> bool:
        """Deletes a ledger; returns whether it has been deleted. `segments`: the segments of the page that lists the
        ledger, if any page does."""
        read = partial(self._ledgers.read, ledger_id)

        async def attempt(found: VersionedRecord | None) -> bool:
            log = await self._look()
            said = None if found is None else segment_of(found.record.custom_metadata)
            if found is None or said is None:
                return True
            if said.identity != log.identity:
                return log.maker_of(said.first_position) != said.identity or await self._delete_shared(
                    found, said, log
                )
            if is_needed(log, found.record, said, segments):
                return log.is_forked(*_positions(found, said))  # it will be deleted along with the last fork
            await _delete(self._ledgers, found, log, self._who)
            self.deleted += 1
            return True

        with suppress(KeepsChanging):
            return await until_changed(f"ledger {ledger_id}", await read(), attempt, read)
        return False

    async def _delete_shared(self, found: VersionedRecord, said: SegmentOf, log: LogRecord) -> bool:
        """Deletes a ledger that another log created and this log no longer needs, unless another log needs it; returns
        True in either case. During a legal hold, deletes nothing and returns False."""
        if log.legal_hold:
            return False
        maker = await self._logs.read(said.identity)
        if maker is None:
            return True  # the metadata has reverted to an older copy; an audit keeps the ledgers of an unknown log
        segments = await segments_at(self._logs, maker.record, said.first_position)
        if not is_needed(maker.record, found.record, said, segments):
            await _delete(self._ledgers, found, log, self._who)
            self.deleted += 1
        return True


class UnneededSegments:
    """Finds and deletes ledgers that no log needs, during one audit: ledgers of a writer that died before it added
    them, or that a client released but could not delete.

    Reads each log once, and each of its pages about once, because the ledgers of a log are usually given in the order
    of its segments.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._ledgers = LedgerStore(store)
        self._logs = LogStore(store)
        self._known: dict[bytes, LogRecord | None] = {}
        self._pages: dict[bytes, Sequence[Segment]] = {}

    async def delete(self, found: VersionedRecord) -> bool:
        """Deletes the ledger if its log does not need it and never will; returns whether it was deleted. Raises
        MetadataError.

        Either no record in the ledger was confirmed, because a writer of an earlier epoch adds no segment, or none of
        the ledger's records remain. The ledger is therefore deleted without being recovered first. A ledger of an
        unknown log is kept, in case an operator restores the metadata.
        """
        said = segment_of(found.record.custom_metadata)
        if said is None:
            return False
        of = await self._log(said.identity)
        if of is None or await self._is_needed(of, found.record, said):
            return False
        now = await self._logs.read(said.identity)
        if now is not None and now.record.legal_hold:
            return False  # the hold began after the log was read
        try:
            await _delete(self._ledgers, found, of)
        except KeyConflict:
            return False  # another process changed the record: the next audit checks again
        return True

    async def _is_needed(self, of: LogRecord, ledger: LedgerRecord, said: SegmentOf) -> bool:
        """Returns whether the ledger is needed by the log, or by a fork that really has it. No fork has a ledger whose
        writer died before adding it."""
        segments = await self._segments_at(of, said.first_position)
        if is_needed(replace(of, forks=()), ledger, said, segments):
            return True
        if not is_needed(of, ledger, said, segments):
            return False
        for identity in [fork.identity for fork in of.forks]:
            fork = await self._log(identity)
            if fork is None or fork.forking:
                return True
            segments = await self._segments_at(fork, said.first_position)
            if any(one.ledger_id == ledger.ledger_id and not fork.gave_up(one) for one in segments):
                return True
        return False

    async def _segments_at(self, of: LogRecord, position: int) -> Sequence[Segment]:
        page = self._pages.get(of.identity, ())
        if not any(segment.holds(position) for segment in page):
            page = self._pages[of.identity] = await segments_at(self._logs, of, position)
        return page

    async def _log(self, identity: bytes) -> LogRecord | None:
        if identity not in self._known:
            found = await self._logs.read(identity)
            self._known[identity] = None if found is None else found.record
        return self._known[identity]


async def _delete(ledgers: LedgerStore, found: VersionedRecord, log: LogRecord, who: str = "") -> None:
    """Deletes the ledger, which its log does not need. Raises KeyConflict if another process has changed the ledger's
    record."""
    await ledgers.delete(found)
    ledger_id = found.ledger_id
    line = "ledger %d, which log %r does not need, is deleted"
    logger.info(line, ledger_id, log.name, extra={"ledger": ledger_id})
    record_audit(Act.DELETE, who=who, ledger_id=ledger_id, log=log.name)


def _positions(found: VersionedRecord, said: SegmentOf) -> tuple[int, int | None]:
    last = found.record.last_entry
    return said.first_position, None if last is None else said.first_position + last + 1


def _without_dead(record: LogRecord) -> LogRecord:
    """Removes segments for which there was no room in `obsolete` at an earlier truncation."""
    return record if record.legal_hold else record.truncated(record.first_position)
