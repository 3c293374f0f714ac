"""Java's and Hadoop's encodings of strings and variable-length numbers.

Exactly one encoding of each value is accepted. Other encodings, which some readers accept but no writer has ever
produced, are refused, so that decoding and re-encoding yields the same bytes.
"""

from __future__ import annotations

from ..errors import BrokenOp

I32_MAX = (1 << 31) - 1
I64_MAX = (1 << 63) - 1

_ONE_BYTE_MIN = -112
VINT_ONE_BYTE_MAX = 127


def read_utf8(raw: bytes) -> str:
    """Decodes Hadoop's own variant of UTF-8, in which a character above U+FFFF is encoded as two surrogates of three
    bytes each."""
    if raw.isascii():
        return raw.decode("ascii")
    try:
        text = _join_surrogates(raw.decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError as error:
        raise BrokenOp(f"a string is not UTF-8: {error.reason}") from error
    if write_utf8(text) != raw:
        raise BrokenOp("a string is not in the form of UTF-8 that Hadoop writes")
    return text


def write_utf8(text: str) -> bytes:
    if text.isascii():
        return text.encode("ascii")
    units = text.encode("utf-16-be", "surrogatepass")
    apart = "".join([chr(units[at] << 8 | units[at + 1]) for at in range(0, len(units), 2)])
    return apart.encode("utf-8", "surrogatepass")


def _join_surrogates(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def read_text(raw: bytes) -> str:
    """Decodes standard UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenOp(f"a string is not UTF-8: {error.reason}") from error


def write_text(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BrokenOp(f"a string cannot be written as UTF-8: {error.reason}") from error


def read_vlong(data: bytes, at: int) -> tuple[int, int]:
    """Decodes a number: one byte for -112 to 127; for other numbers, the first byte holds the sign and the number of
    bytes that follow."""
    first = data[at]
    if first <= VINT_ONE_BYTE_MAX:
        return first, at + 1
    first -= 256
    if first >= _ONE_BYTE_MIN:
        return first, at + 1
    negative = first < -120
    size = -120 - first if negative else -112 - first
    raw = data[at + 1 : at + 1 + size]
    value = int.from_bytes(raw, "big")
    value = ~value if negative else value
    if len(raw) < size:
        raise BrokenOp("a number is cut short")
    if not raw[0] or _ONE_BYTE_MIN <= value <= VINT_ONE_BYTE_MAX or not ~I64_MAX <= value <= I64_MAX:
        raise BrokenOp("a number is not encoded the way Hadoop encodes it")
    return value, at + 1 + size


def write_vlong(value: int) -> bytes:
    if _ONE_BYTE_MIN <= value <= VINT_ONE_BYTE_MAX:
        return bytes([value & 0xFF])
    if not ~I64_MAX <= value <= I64_MAX:
        raise BrokenOp(f"{value} does not fit into 64 bits")
    magnitude = ~value if value < 0 else value
    size = (magnitude.bit_length() + 7) // 8
    first = (-120 if value < 0 else -112) - size
    return bytes([first & 0xFF]) + magnitude.to_bytes(size, "big")


def read_vint(data: bytes, at: int) -> tuple[int, int]:
    value, end = read_vlong(data, at)
    if not ~I32_MAX <= value <= I32_MAX:
        raise BrokenOp(f"{value} does not fit into 32 bits")
    return value, end


def write_vint(value: int) -> bytes:
    if not ~I32_MAX <= value <= I32_MAX:
        raise BrokenOp(f"{value} does not fit into 32 bits")
    return write_vlong(value)


def read_maybe_text(raw: bytes | None) -> str | None:
    return None if raw is None else read_text(raw)


def write_maybe_text(text: str | None) -> bytes | None:
    return None if text is None else write_text(text)
