"""Logs as plain values: segments over time, cursors and their lags, and retention.

All values are read from the metadata, except for the lags of cursors, which bookies report.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bookie.upkeep.logs.log_sights import look_at
from metadata import keys
from metadata.errors import BadRecord
from metadata.records.coordination.election_record import current_term
from metadata.records.directory_generations import time_ms
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.retention import retention_to_dict
from metadata.records.logs.retention_view import look
from metadata.records.logs.segment import Segment
from metadata.records.record_decoding import skip
from metadata.store import MetadataStore, Versioned

from .metadata_view import MetadataView, key_before

LOGS_MAX = 100
"""Maximum number of logs on one page."""

SEGMENTS_MAX = 100
"""Maximum number of segments of one log in one response."""

CURSORS_MAX = 200
"""Maximum number of cursors of one log in one response."""

Facts = dict[str, Any]


async def logs(sight: MetadataView, first: str = "", limit: int = LOGS_MAX) -> Facts:
    """Returns one page of all logs, sorted by name. `next` is the start of the next page."""
    rows: list[Facts] = []
    async with sight.looking() as store:
        await sight.name(store)
        after, is_more = key_before(keys.LOG_NAMES, first), True
        while is_more and len(rows) <= limit:
            page = await store.list_page(keys.LOG_NAMES, after=after, limit=limit + 1)
            for item in page.items:
                rows += await _named(store, item)
            after, is_more = page.next_after, page.next_after is not None
    following = rows[limit]["log"] if len(rows) > limit else None
    return {"logs": rows[:limit], "next": following}


async def _named(store: MetadataStore, item: Versioned) -> list[Facts]:
    try:
        found = await LogStore(store).led_to(item)
    except BadRecord as error:
        skip(error)
        return []
    return [_row(found.record)] if found is not None and not found.record.deleted else []


async def one_log(sight: MetadataView, name: str, first_segment: int = 0) -> Facts | None:
    """Returns one log, with its segments from this position on; None if the log does not exist."""
    if not keys.is_name(name):
        return None
    async with sight.looking() as store:
        await sight.name(store)
        logs = LogStore(store)
        found = await logs.named(name)
        if found is None or found.record.deleted:
            return None
        now_us = await time_ms(store) * 1000
        segments = await _segments(logs, found.record, first_segment)
        return {
            **_row(found.record),
            **_settings(found.record),
            "leader": await _leader(store, found.record),
            "segments": [_segment(one) for one in segments[:SEGMENTS_MAX]],
            "next_segment": segments[SEGMENTS_MAX].first_position if len(segments) > SEGMENTS_MAX else None,
            "cursors": await _cursors(sight, store, found.record),
            **await _retention(logs, found.record, now_us),
        }


def _row(record: LogRecord) -> Facts:
    return {
        "log": record.name,
        "set": record.log_set,
        "first_position": record.first_position,
        "ended_position": record.ended_position,
        "is_written": record.end_position is None,
        "epoch": record.epoch,
        "writer": record.writer,
        "legal_hold": record.legal_hold,
        "retention": retention_to_dict(record.retention) if record.retention.is_set else None,
        "created_ms": record.created_ms,
    }


def _settings(record: LogRecord) -> Facts:
    settings = record.settings
    return {
        "identity": record.identity.hex(),
        "owner": record.owner,
        **asdict(settings.shape),
        "roll_bytes": settings.roll_bytes,
        "roll_records": settings.roll_records,
        "roll_seconds": settings.roll_seconds,
        "forks": len(record.forks),
        "is_fork": bool(record.makers),
    }


async def _leader(store: MetadataStore, record: LogRecord) -> Facts | None:
    """Returns the election under which the log was last written to, and its leader if that term is still current."""
    if not record.election:
        return None
    term = await current_term(store, record.election)
    leads = term is not None and term.token == record.token
    return {
        "election": record.election,
        "token": record.token,
        "leader": term.leader if term is not None and leads else None,
        "since_ms": term.since_ms if term is not None and leads else None,
    }


async def _segments(logs: LogStore, record: LogRecord, first: int) -> list[Segment]:
    """Returns the log's segments from position `first` on. If there are more than SEGMENTS_MAX, the list may be
    incomplete, but it contains more than SEGMENTS_MAX."""
    found: list[Segment] = []
    position = max(first, record.first_position)
    while position < record.paged_through and len(found) <= SEGMENTS_MAX:
        page = await logs.page_of(record.identity, position)
        if page is None:
            break
        found += [one for one in page.segments if position < (one.end_position or 0) <= record.paged_through]
        position = page.segments[-1].end_position or record.paged_through
    own = [one for one in record.segments if one.end_position is None or one.end_position > position]
    return [*found, *own]


def _segment(one: Segment) -> Facts:
    return {
        "first_position": one.first_position,
        "end_position": one.end_position,
        "ledger_id": one.ledger_id,
        "epoch": one.epoch,
        "encoded_bytes": one.length_bytes if one.is_ended else None,
        "begun_ms": one.begun_us // 1000,
        "ended_ms": one.ended_us // 1000 if one.is_ended else None,
    }


async def _cursors(view: MetadataView, store: MetadataStore, record: LogRecord) -> list[Facts]:
    [sight] = await look_at(store, [record], view.ask_lag, CURSORS_MAX)
    return [
        {
            "cursor": one.name,
            "position": one.record.position,
            "lag_records": None if one.lag is None else one.lag[0],
            "lag_seconds": None if one.lag is None else round(one.lag[1], 3),
            "truncated": max(0, record.first_position - one.record.position),
            "consumer": one.record.consumer,
            "changed_ms": one.record.changed_ms,
        }
        for one in sight.cursors
    ]


async def _retention(logs: LogStore, record: LogRecord, now_us: int) -> Facts:
    """Returns the position before which the auditor's next round deletes segments, the next segment to be deleted, and
    the cursors that the deletion waits for."""
    if not record.retention.is_set:
        return {"goes_before": None, "next": None, "counted_cursors": []}
    found = await look(logs, record)
    cursors, judgement = found.counted(), found.judged(now_us)
    following = judgement.next
    return {
        "goes_before": None if record.legal_hold else judgement.before,
        "next": None
        if following is None
        else {
            "first_position": following.first_position,
            "end_position": following.end_position,
            "encoded_bytes": following.length_bytes,
            "stays_because": "the log is under legal hold" if record.legal_hold else following.why,
            "goes_ms": None if following.goes_us is None or record.legal_hold else following.goes_us // 1000,
        },
        "counted_cursors": [
            {
                "cursor": one.name,
                "position": one.position,
                "silent_seconds": one.silent_seconds,
                "counts": one.counts,
            }
            for one in cursors
        ],
    }
