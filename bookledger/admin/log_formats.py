"""Log formats of a process: text for people, or JSON for log collectors (`--log-format`)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from enum import Enum

from bookie.log_context import bookie_now

_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Fields that the logging library adds to every record; all other fields were passed with the record."""


class LogFormat(Enum):
    PLAIN = "plain"
    JSON = "json"


class BookieIdFilter(logging.Filter):
    """Adds the bookie's name to each of the bookie's log lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        bookie_id = bookie_now()
        if bookie_id and not hasattr(record, "bookie"):
            record.bookie = bookie_id
        return True


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object: `at` (UTC), `level`, `logger`, `message`, `trace` if there is one, and the
    fields passed with the record, such as `bookie`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, object] = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        given = {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        return json.dumps(given | fields, default=str)


def are_json() -> bool:
    """Returns whether this process logs JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)
