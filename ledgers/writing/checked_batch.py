"""Payloads of an append, validated before any is taken in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from ..entry import check_is_bytes
from ..errors import EntryTooLarge


def checked_size(payload: bytes, entry_bytes_max: int) -> int:
    """The bytes of an entry. Raises as `check_is_bytes`, and EntryTooLarge."""
    check_is_bytes(payload)
    if (size := len(payload)) > entry_bytes_max:
        raise EntryTooLarge(size, entry_bytes_max)
    return size


class CheckedBatch:
    """A validated batch. Raises TypeError for anything but `bytes`, and EntryTooLarge: then none of it is appended."""

    def __init__(self, payloads: Sequence[bytes], entry_bytes_max: int) -> None:
        self.payloads = list(payloads)
        if not all(map(isinstance, self.payloads, repeat(bytes))):
            for payload in self.payloads:
                check_is_bytes(payload)
        sizes = list(map(len, self.payloads))
        self.size_bytes = sum(sizes)
        if (largest := max(sizes, default=0)) > entry_bytes_max:
            raise EntryTooLarge(largest, entry_bytes_max)
