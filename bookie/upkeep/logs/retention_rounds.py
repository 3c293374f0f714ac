"""The auditor's rounds of retention: truncates each log that has a retention, a few segments at a time.

A log is truncated by one compare-and-swap of its record; then ledgers that it no longer needs are deleted, as after any
truncation. A repeated or interrupted round does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from metadata import keys
from metadata.audit import Act, record_audit
from metadata.backup import hold
from metadata.errors import BadRecord, KeepsChanging, KeyConflict
from metadata.records import directory_generations
from metadata.records.coordination.transitions import HeldRecord, Standing
from metadata.records.logs import log_codec, silences
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.retention import CountedCursor
from metadata.records.logs.retention_view import HEAD_SEGMENTS_MAX, RetentionView, look
from metadata.records.logs.segment_deletion import Cleaner
from metadata.records.record_decoding import skip
from metadata.store import MetadataStore
from metadata.version import Version

from .log_sights import CURSORS_REPORTED_MAX, LOGS_REPORTED_MAX, AskLag, LogSight, lag_unknown, look_at
from .silence_counts import SilenceCounts

log = logging.getLogger(__name__)

ROUND_SECONDS = 60.0
"""Minimum seconds from the start of one round to the start of the next."""

LOGS_PER_PAGE = 100
"""Number of logs read at once."""

LOGS_AT_ONCE = 20
"""Maximum number of logs of a page that are examined and truncated concurrently."""

LOOK_SECONDS_MAX = 2.0
"""Seconds after which an auditor turns from logs to other work. About 10,000 logs take three such turns, so a round
ends within ROUND_SECONDS; a round of many more logs takes longer."""

SILENT_NAMED_MAX = 32
"""Maximum number of silent cursors reported by name."""


@dataclass(slots=True)
class Totals:
    """Totals since this process started."""

    rounds: int = 0
    records: int = 0
    bytes: int = 0
    ledgers: int = 0


@dataclass(slots=True)
class _Known:
    """The data that an auditor keeps about a log between rounds. `clean_through`: the ledgers of truncated records
    before this position have been deleted."""

    counts: SilenceCounts = field(default_factory=SilenceCounts)
    logged_silent: set[str] = field(default_factory=set)
    clean_through: int | None = None


@dataclass(slots=True)
class _Round:
    """Findings of the current round, updated while it runs."""

    met: set[bytes] = field(default_factory=set)
    logs: list[LogSight] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)


class RetentionRounds:
    """Truncates logs by their retention. Belongs to the auditor. `seconds` is a monotonic clock."""

    def __init__(self, store: MetadataStore, seconds: Callable[[], float] | None = None) -> None:
        self._store = store
        self.ask_lag: AskLag = lag_unknown
        """Used for metrics; set by a process that has a client for bookies."""
        self._logs = LogStore(store)
        self._seconds = seconds or (lambda: asyncio.get_running_loop().time())
        self._is_under_way = False
        self._after: str | None = None
        self._next_at = 0.0
        self._known: dict[bytes, _Known] = {}
        self._round = _Round()
        self.totals = Totals()
        self.logs: tuple[LogSight, ...] = ()
        self.silent_cursors: tuple[str, ...] = ()
        """Silent cursors as of the last complete round, in the form LOG/CURSOR; at most SILENT_NAMED_MAX."""

    async def look(self) -> None:
        """Continues the round, or begins one if it is due. Raises MetadataError; in that case the next call continues
        the round."""
        if not self._is_under_way:
            if self._seconds() < self._next_at:
                return
            if await hold.read(self._store) is not None:
                return  # the logs' records may be outdated, so nothing is truncated
            self._next_at = self._seconds() + ROUND_SECONDS
            self._is_under_way, self._after, self._round = True, None, _Round()
        until = self._seconds() + LOOK_SECONDS_MAX
        while self._is_under_way:
            await self._look_at_page()
            if self._seconds() >= until:
                return

    async def _look_at_page(self) -> None:
        page = await self._store.list_page(keys.LOGS, after=self._after, limit=LOGS_PER_PAGE)
        decoded = [_decoded(item.key, item.value, item.version) for item in page.items]
        found = [one for one in decoded if one is not None and not one.record.deleted]
        self._round.met.update(one.record.identity for one in found)
        retained = [one for one in found if one.record.retention.is_set]
        now_us = await directory_generations.time_ms(self._store) * 1000 if retained else 0
        for start in range(0, len(retained), LOGS_AT_ONCE):
            part = retained[start : start + LOGS_AT_ONCE]
            ended = await asyncio.gather(*(self._retain(one, now_us) for one in part), return_exceptions=True)
            for error in filter(None, ended):
                raise error
        await self._see([one.record for one in found])
        self._after = page.next_after
        if page.next_after is None:
            self._ended()

    def _ended(self) -> None:
        self._is_under_way = False
        self.totals.rounds += 1
        met = self._round.met
        self._known = {identity: known for identity, known in self._known.items() if identity in met}
        self.logs, self.silent_cursors = tuple(self._round.logs), tuple(sorted(self._round.silent))

    async def _see(self, records: Sequence[LogRecord]) -> None:
        logs_left = LOGS_REPORTED_MAX - len(self._round.logs)
        cursors_left = CURSORS_REPORTED_MAX - sum(len(one.cursors) for one in self._round.logs)
        self._round.logs += await look_at(self._store, records[:logs_left], self.ask_lag, cursors_left)

    async def _retain(self, found: VersionedLog, now_us: int) -> None:
        """Truncates one log, unless its record is unreadable or another process is changing it."""
        try:
            await self._give_up(found, now_us)
        except BadRecord as error:
            skip(error)  # leaves this log unchanged
        except (_NotNow, KeepsChanging) as error:
            log.info("retention of log %r is postponed to the next round: %s", found.record.name, error)

    async def _give_up(self, found: VersionedLog, now_us: int) -> None:
        """Truncates one log and deletes its obsolete ledgers; under a legal hold, does neither."""
        record = found.record
        retained = await look(self._logs, record)
        cursors = await self._counted(retained)
        judgement = retained.judged(now_us, cursors)
        if record.legal_hold:
            return
        chain = _Chain(self._logs, found)
        if judgement.before is not None:
            await self._truncate(chain, retained, judgement.before)
        await self._clean(chain)

    async def _counted(self, retained: RetentionView) -> list[CountedCursor]:
        """Returns the named cursors with their silences as counted by this auditor, and records those silences."""
        identity = retained.record.identity
        counts = self._of(identity).counts
        silent_ms = counts.look(retained.silences, retained.behind, self._seconds())
        to_record = counts.to_record(silent_ms)
        if to_record is not None:
            try:
                version = await silences.write(self._store, identity, to_record, retained.silences.version)
                counts.recorded(version)
            except KeyConflict:
                log.debug("another auditor is counting the silences of log %r", retained.record.name)
        cursors = retained.counted(silent_ms)
        for cursor in cursors:
            self._log_silence(retained.record, cursor)
        return cursors

    def _log_silence(self, record: LogRecord, cursor: CountedCursor) -> None:
        """Logs, once, that retention ignores a cursor, or that it no longer does."""
        logged = self._of(record.identity).logged_silent
        if cursor.counts:
            if cursor.name in logged:
                logged.remove(cursor.name)
                log.info(
                    "retention no longer ignores cursor %r of log %r, because the cursor has moved",
                    cursor.name,
                    record.name,
                )
            return
        if len(self._round.silent) < SILENT_NAMED_MAX:
            self._round.silent.add(f"{record.name}/{cursor.name}")
        if cursor.name not in logged:
            logged.add(cursor.name)
            line = (
                "retention ignores cursor %r of log %r, which has not moved for %.0f s, and may delete records "
                "that the cursor's reader has not read"
            )
            log.warning(line, cursor.name, record.name, cursor.silent_seconds)

    def _of(self, identity: bytes) -> _Known:
        return self._known.setdefault(identity, _Known())

    async def _truncate(self, chain: _Chain, retained: RetentionView, before: int) -> None:
        seen = retained.record
        first = seen.first_position

        def truncated(record: LogRecord) -> LogRecord:
            is_as_seen = record.retention == seen.retention and not record.legal_hold and not record.deleted
            return record.truncated(before) if is_as_seen else record

        now = await chain.change(truncated)
        if now.first_position < before:
            return
        log.info("retention truncated log %r: positions %d to %d", now.name, first, before - 1)
        record_audit(Act.TRUNCATE, log=now.name, position=before, by="retention")
        self.totals.records += before - first
        self.totals.bytes += sum(
            s.length_bytes for s in retained.head if s.end_position is not None and s.end_position <= before
        )

    async def _clean(self, chain: _Chain) -> None:
        """Deletes the ledgers of truncated records. Skips the lookup if they have already been deleted."""
        record, known = chain.record, self._of(chain.record.identity)
        if known.clean_through == record.first_position and not record.obsolete:
            return

        cleaner = Cleaner(self._logs, chain.refresh, ledgers_max=HEAD_SEGMENTS_MAX)
        try:
            if await cleaner.clean(chain.change):
                known.clean_through = record.first_position
        finally:
            self.totals.ledgers += cleaner.deleted


class _NotNow(Exception):
    """Another process is changing the log."""


class _Chain(HeldRecord[LogRecord]):
    """A log's record as last read or changed. Changes nothing if the log is deleted or being deleted."""

    def __init__(self, logs: LogStore, found: VersionedLog) -> None:
        super().__init__(found)
        self.logs = logs

    @property
    def what(self) -> str:
        return f"log {self.record.name!r}"

    async def _read(self) -> VersionedLog:
        found = await self.logs.read(self.record.identity)
        if found is None or found.record.deleted:
            raise _NotNow("the log is deleted")
        return found

    async def _replaced(self, wanted: LogRecord, version: Version) -> VersionedLog:
        return await self.logs.change(wanted, version)


def _decoded(key: str, value: bytes, version: Version) -> VersionedLog | None:
    try:
        return Standing(log_codec.decode(key, value), version)
    except BadRecord as error:
        skip(error)
        return None
