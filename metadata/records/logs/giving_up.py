"""Deletes what logs have given up: ledgers first, then what names them.

Whoever is interrupted leaves the names, and the next one deletes the same ledgers again. Only a ledger that says that
it is the log's own goes: in metadata that went back an id may be another ledger's (rule W8). A ledger that a log shares
is deleted by whoever gives it up last, as the record of the log that made it tells (rule L13).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ...audit import Act, tell
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
"""Reads a log's record as it stands."""

Change = Callable[[Callable[[LogRecord], LogRecord]], Awaitable[LogRecord]]
"""Changes it by compare-and-swap: a transition is applied to what stands."""


class Cleaner:
    """One clean-up of one log, of at most so many ledgers. `who`: the client, for the audit log."""

    def __init__(self, logs: LogStore, look: Look, who: str = "", ledgers_max: int = sys.maxsize) -> None:
        self._logs = logs
        self._ledgers = LedgerStore(logs.store)
        self._look = look
        self._who = who
        self._left = ledgers_max
        self.deleted = 0
        """Ledgers that this clean-up has deleted."""

    async def clean(self, change: Change) -> bool:
        """Deletes the ledgers in which nothing is left; whether all of them are gone.

        False also where a legal hold stands. Raises MetadataError, and what `look` and `change` raise.
        """
        await self._drop_snapshots(await self._look())
        # Before the pages: a segment that is in the chain, too, is needed until it has left that.
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
        """Deletes all that is left of a deleted log whose last ledger is closed: ledgers, pages, name, record. What its
        forks need stays, and its record as long as it has any.

        False where a ledger keeps changing; then it is to be done again. Raises MetadataError.
        """
        logs, record = self._logs, found.record
        assert record.deleted
        await self.release(record)
        own = (*(segment.ledger_id for segment in record.segments), *record.obsolete)
        if not (await self._clean_pages(record) and await self._delete_all(own)):
            return False
        if record.forks:  # before its name goes: from here on the last fork ends its record
            await self._end(found)
        await logs.take_name(record.name, record.identity)
        await CursorStore(logs.store, record.identity).forget_all()
        await silences.forget(logs.store, record.identity)
        await ProducerStore(logs.store, record.identity).drop_all()
        await self._end_makers(record)
        await self._end(found)
        return True

    async def _end(self, found: VersionedLog) -> None:
        """Deletes the record of a log of which nothing else is left; if it has forks, all in it but these."""
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
        """Tells the logs that made ledgers of this one what it needs no longer, before anything is deleted."""
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
        """Of a deleted log that made ledgers of this one, and that has no fork any more, nothing is left."""
        for identity in dict.fromkeys(one.identity for one in record.makers):
            found = await self._logs.read(identity)
            if found is not None and found.record.is_done:
                await self._logs.forget(found)

    async def _drop_snapshots(self, record: LogRecord) -> None:
        """What was known of producers before the last segment began is of use to nobody."""
        if record.producers_from is not None:
            begins = record.paged_through if record.last is None else record.last.first_position
            await ProducerStore(self._logs.store, record.identity).drop_before(begins)

    async def _clean_pages(self, record: LogRecord) -> bool:
        """Pages in which nothing is left go with their ledgers; of one in which something is, only ledgers go."""
        async for page in self._logs.pages(record.identity):
            dead = [s.ledger_id for s in page.segments if record.gave_up(s)]
            if not await self._delete_all(dead, page.segments):
                return False
            if len(dead) < len(page.segments):
                break
            await self._logs.drop_page(record.identity, page)
        return True

    async def _delete_all(self, ledger_ids: Iterable[int], segments: Sequence[Segment] = ()) -> bool:
        """Deletes ledgers, unless a hold has begun, or it were too many."""
        for ledger_id in ledger_ids:
            if self._left == 0 or not await self._delete(ledger_id, segments):
                return False
            self._left -= 1
        return True

    async def _delete(self, ledger_id: int, segments: Sequence[Segment]) -> bool:
        """Whether it is gone. `segments`: those of the page that it is in, if it is in one."""
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
                return log.is_forked(*_positions(found, said))  # it goes with the last fork
            await _delete(self._ledgers, found, log, self._who)
            self.deleted += 1
            return True

        with suppress(KeepsChanging):
            return await until_changed(f"ledger {ledger_id}", await read(), attempt, read)
        return False

    async def _delete_shared(self, found: VersionedRecord, said: SegmentOf, log: LogRecord) -> bool:
        """Deletes a ledger of another log that this one has given up, unless anybody else needs it; True either way."""
        if log.legal_hold:
            return False
        maker = await self._logs.read(said.identity)
        if maker is None:
            return True  # in metadata that went back: an audit deletes nothing of a log that is not known
        segments = await segments_at(self._logs, maker.record, said.first_position)
        if not is_needed(maker.record, found.record, said, segments):
            await _delete(self._ledgers, found, log, self._who)
            self.deleted += 1
        return True


class UnneededSegments:
    """Finds and deletes ledgers that no log needs, in the course of one audit: made by a writer that died before it
    added them, or given up by one that could not delete them.

    Reads each log once, and each of its pages about once: ledgers of a log come in the order of its segments, as a
    rule.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._ledgers = LedgerStore(store)
        self._logs = LogStore(store)
        self._known: dict[bytes, LogRecord | None] = {}
        self._pages: dict[bytes, Sequence[Segment]] = {}

    async def delete(self, found: VersionedRecord) -> bool:
        """Deletes the ledger if its log does not need it, and never will; whether it has. Raises MetadataError.

        Nothing in it was confirmed, or is left: a writer of an earlier epoch adds no segment. So it is not recovered.
        A ledger of a log that is not known stays, for whoever restores the metadata.
        """
        said = segment_of(found.record.custom_metadata)
        if said is None:
            return False
        of = await self._log(said.identity)
        if of is None or await self._is_needed(of, found.record, said):
            return False
        now = await self._logs.read(said.identity)
        if now is not None and now.record.legal_hold:
            return False  # it began since the log was read
        try:
            await _delete(self._ledgers, found, of)
        except KeyConflict:
            return False  # somebody changed it: the next audit looks again
        return True

    async def _is_needed(self, of: LogRecord, ledger: LedgerRecord, said: SegmentOf) -> bool:
        """By the log itself, or by a fork of it that really has the ledger: one that a dead writer made none has."""
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
    """Deletes the ledger, which its log does not need. Raises KeyConflict where somebody has changed its record."""
    await ledgers.delete(found)
    ledger_id = found.ledger_id
    line = "ledger %d, which log %r does not need, is deleted"
    logger.info(line, ledger_id, log.name, extra={"ledger": ledger_id})
    tell(Act.DELETE, who=who, ledger_id=ledger_id, log=log.name)


def _positions(found: VersionedRecord, said: SegmentOf) -> tuple[int, int | None]:
    last = found.record.last_entry
    return said.first_position, None if last is None else said.first_position + last + 1


def _without_dead(record: LogRecord) -> LogRecord:
    """What a truncation found no room for is given up now."""
    return record if record.legal_hold else record.truncated(record.first_position)
