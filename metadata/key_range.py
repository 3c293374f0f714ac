"""Where the keys that start with a prefix end, for stores that keep keys in byte order."""

from __future__ import annotations

KEY_END = b"\xff"
"""Greater than every key: no UTF-8 text holds this byte."""


def prefix_end(prefix: bytes) -> bytes:
    """The smallest byte string greater than every UTF-8 text that starts with `prefix`.

    UTF-8 never holds 0xff, so the last byte can always be raised by one.
    """
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else KEY_END
