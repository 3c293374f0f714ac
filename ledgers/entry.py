"""An entry as applications see it, and the argument checks that many calls share.

The error for a wrong type states the expected type, and how to convert to it.
"""

from __future__ import annotations

from typing import NamedTuple

ENTRY_OVERHEAD_BYTES = 256
"""Memory used by an unconfirmed entry in addition to its payload: future, id, digest. Counting it toward the limit of
unconfirmed bytes also limits the number of such entries."""


class Entry(NamedTuple):
    """One confirmed entry. `payload` is exactly the payload that was appended; its digest has been verified."""

    entry_id: int
    payload: bytes


Payload = bytes | bytearray | memoryview
"""Types accepted as the payload of an entry or a record. Buffers are copied, so they may change after the append."""


def as_bytes(payload: object) -> bytes:
    """Returns the bytes of a payload. Raises TypeError for anything that is not a `Payload`."""
    if type(payload) is bytes:
        return payload
    if isinstance(payload, Payload):
        return bytes(payload)
    raise wrong_type("a payload", "bytes, bytearray or memoryview", payload)


def check_int(what: str, value: object) -> None:
    """Raises TypeError for anything but a whole number."""
    if not isinstance(value, int):
        how = f": int({value!r})" if isinstance(value, str) and value.isdecimal() else ""
        raise TypeError(f"{what} must be an int, not {type(value).__name__}{how}")


def check_bytes(what: str, value: object) -> None:
    """Raises TypeError for anything but bytes."""
    if type(value) is not bytes:
        raise wrong_type(what, "bytes", value)


def check_timeout(value: object) -> None:
    """Raises TypeError or ValueError unless the value is a number of seconds, or None for no limit."""
    expected = "a number of seconds, 0 or more, or None"
    if not isinstance(value, int | float | None):
        raise wrong_type("a timeout", expected, value)
    if value is not None and not value >= 0:
        raise ValueError(f"a timeout must be {expected}, not {value}")


def wrong_type(what: str, expected: str, value: object) -> TypeError:
    how = (
        ": encode it, for example with text.encode()"
        if isinstance(value, str) and "bytes" in expected
        else ""
    )
    return TypeError(f"{what} must be {expected}, not {type(value).__name__}{how}")
