"""Formats byte counts for people: rounded, and exact."""

from __future__ import annotations

UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
STEP = 1024


def format_bytes(count: int) -> str:
    """Formats a byte count, as in `1.5 MiB (1,572,864 bytes)`; below one KiB, gives only the exact count."""
    exact = f"{count:,} byte{'' if count == 1 else 's'}"
    return exact if abs(count) < STEP else f"{short_size(count)} ({exact})"


def short_size(count: int) -> str:
    """Formats a byte count for a narrow column, as in `1.5 MiB`."""
    if abs(count) < STEP:
        return f"{count} B"
    size, power = count / STEP, 0
    while abs(round(size, 1)) >= STEP and power < len(UNITS) - 1:
        size, power = size / STEP, power + 1
    return f"{size:.1f} {UNITS[power]}"


def counts_bytes(name: str) -> bool:
    """Returns whether a field of this name is a byte count, such as `length_bytes` or `last.bytes_moved`, and not a
    rate."""
    words = name.rpartition(".")[2].split("_")
    return "bytes" in words and "per" not in words
