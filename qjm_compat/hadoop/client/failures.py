"""Translates the errors of JournalNodes into ours."""

from __future__ import annotations

from ... import errors
from ...errors import (
    BadJournalState,
    BadRequest,
    EditsNotCached,
    JournalError,
    JournalNotEmpty,
    JournalNotFormatted,
    JournalOutOfSync,
    NewerTxid,
    RuleViolated,
    StaleEpoch,
)
from ..errors import NoSuchMethod, RemoteError

SAID_CHARACTERS_MAX = 2000
"""The longest message kept from a node; a Java stack trace follows it."""

_STALE = ("is less than the last promised epoch", "<= last promise", "is not the current writer epoch")
_NO_CACHE = "journal edits cache is not enabled"
"""The message of a 3.x node whose configuration disables in-progress tailing."""

_CLASSES = (
    BadRequest,
    BadJournalState,
    EditsNotCached,
    JournalNotEmpty,
    JournalNotFormatted,
    JournalOutOfSync,
    NewerTxid,
    NoSuchMethod,
    RuleViolated,
)
_BY_JAVA_CLASS: dict[str, type[JournalError]] = {one.java_class: one for one in _CLASSES}


def error_named(java_class: str, message: str, own_class: str = "") -> JournalError:
    """The error for a Hadoop class. `own_class` is the class that our own nodes name."""
    said = message.partition("\n\tat ")[0][:SAID_CHARACTERS_MAX].removeprefix(f"{java_class}: ")
    ours = getattr(errors, own_class, None) if own_class.isidentifier() else None
    if isinstance(ours, type) and issubclass(ours, JournalError):
        return _saying(ours, said)
    if any(phrase in said for phrase in _STALE):
        return StaleEpoch(said)
    if _NO_CACHE in said:
        return _saying(EditsNotCached, said)
    known = _BY_JAVA_CLASS.get(java_class)
    return _saying(known, said) if known is not None else RemoteError(java_class, said)


def _saying(kind: type[JournalError], said: str) -> JournalError:
    """An error with the node's message, bypassing its constructor."""
    error = kind.__new__(kind, said)
    if isinstance(error, EditsNotCached):
        error.missing_txns = 0
    return error
