"""Logs and their segments as `log list` and `log show` print them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ledgers.logs.forks.fork_sharing import Sharing
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.segment import Segment

from ..output import iso


def log_fields(name: str, record: LogRecord) -> dict[str, Any]:
    """Returns the main fields of a log. `end_position` is None while a writer may append."""
    return {
        "log": name,
        "first_position": record.first_position,
        "end_position": record.end_position,
        "epoch": record.epoch,
        "writer": record.writer if record.end_position is None else None,
        "legal_hold": record.legal_hold,
        "created_at": time_field(record.created_ms * 1000),
    }


def settings_fields(record: LogRecord) -> dict[str, Any]:
    """Returns the settings of a log's segments."""
    settings = record.settings
    return {
        "identity": record.identity.hex(),
        "owner": record.owner or None,
        **asdict(settings.shape),
        "digest": settings.digest_type.value.replace("_", "-"),
        "roll_bytes": settings.roll_bytes,
        "roll_records": settings.roll_records,
        "roll_seconds": settings.roll_seconds,
    }


def sharing_fields(sharing: Sharing) -> dict[str, Any]:
    """Returns the logs with which a log shares ledgers. `own_bytes`: bytes per copy that would be freed by deleting the
    log."""
    return {
        "shared_with": [f"{one.log}: {one.start} to {one.stop - 1}" for one in sharing.logs],
        "own_bytes": sharing.own_bytes,
        "shared_bytes": sharing.shared_bytes,
    }


def segment_fields(segment: Segment) -> dict[str, Any]:
    """Returns the fields of a segment; those that are known only once it has ended are None while its ledger may be
    open.

    `encoded_bytes`: size of one copy of its records, including the time, key and headers of each.
    """
    is_ended = segment.end_position is not None
    return {
        "first_position": segment.first_position,
        "end_position": segment.end_position,
        "ledger_id": segment.ledger_id,
        "epoch": segment.epoch,
        "encoded_bytes": segment.length_bytes if is_ended else None,
        "begun_at": time_field(segment.begun_us),
        "last_record_at": time_field(segment.ended_us) if is_ended else None,
    }


def time_field(us: int) -> str | None:
    """Formats a time in microseconds; returns None if `us` is 0."""
    return iso(datetime.fromtimestamp(us / 1_000_000, UTC)) if us else None
