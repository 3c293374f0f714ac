"""Log formats of a process: text for people, or JSON for log collectors (`--log-format`)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from enum import Enum

from bookie.log_context import bookie_now

_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What the library itself says of a record: the rest was given with it."""


class LogFormat(Enum):
    PLAIN = "plain"
    JSON = "json"


class TellsBookie(logging.Filter):
    """Gives each line the name of the bookie that it is of, where there is one."""

    def filter(self, record: logging.LogRecord) -> bool:
        bookie_id = bookie_now()
        if bookie_id and not hasattr(record, "bookie"):
            record.bookie = bookie_id
        return True


class JsonFormatter(logging.Formatter):
    """A line is one JSON object: `at` (UTC), `level`, `logger`, `message`, `trace` where there is one, and what was
    given with the record, such as `bookie`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, object] = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        given = {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        return json.dumps(given | told, default=str)


def are_json() -> bool:
    """Whether this process logs so."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)
