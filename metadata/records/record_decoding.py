"""Parses records of one version, and handles those that it cannot decode, which come from a newer program or are under
a stray key.

Listings skip such records, so that one of them does not stop everything else, and log each once. A skipped record is
not absent: before a caller deletes, gives or takes something because a record is absent, it reads that single record,
which raises BadRecord.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from google.protobuf.message import DecodeError

from ..errors import BadRecord

log = logging.getLogger(__name__)


class Message(Protocol):
    """A protobuf message with a version."""

    @property
    def format_version(self) -> int: ...

    @classmethod
    def FromString(cls, value: bytes, /) -> Self: ...  # noqa: N802 — as protobuf names it


M = TypeVar("M", bound=Message)
T = TypeVar("T")

OnUnreadable = Callable[[BadRecord], None]

NAMED_MAX = 1000
"""Maximum number of keys that one process logs; any further ones are skipped silently."""

_named: set[str] = set()


def parse_record(kind: type[M], key: str, value: bytes, version: int, what: str = "format") -> M:
    """Parses the record under a key; this program supports one version of it. Raises BadRecord."""
    try:
        message = kind.FromString(value)
    except DecodeError as error:
        raise BadRecord(key, str(error)) from error
    if message.format_version != version:
        raise BadRecord(key, f"{what} version {message.format_version}; this program supports {version}")
    return message


def skip(error: BadRecord) -> None:
    """Logs a warning that a record was skipped, once for each key."""
    if error.key not in _named and len(_named) < NAMED_MAX:
        _named.add(error.key)
        log.warning("skipped: %s; upgrade this program, or remove the key if no program uses it", error)


def decode_or_skip(decode: Callable[[str, bytes], T], key: str, value: bytes) -> T | None:
    """Returns the decoded record; if it cannot be decoded, skips it and returns None."""
    try:
        return decode(key, value)
    except BadRecord as error:
        skip(error)
        return None


def refuse(error: BadRecord) -> None:
    """Raises the error; used instead of `skip` for listings that must be complete."""
    raise error
