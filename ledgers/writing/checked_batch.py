"""Payloads of an append, all of which are validated before any is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TypeVar

from ..entry import Payload, as_bytes
from ..errors import EntryTooLarge

T = TypeVar("T")


def checked(payload: Payload, entry_bytes_max: int) -> bytes:
    """Returns the bytes of an entry. Raises EntryTooLarge, and the errors of `as_bytes`."""
    payload = as_bytes(payload)
    if (size := len(payload)) > entry_bytes_max:
        raise EntryTooLarge(size, entry_bytes_max)
    return payload


def listed(batch: Sequence[T]) -> list[T]:
    """Returns the payloads or records of a batch as a list. Raises TypeError for a single payload, because its bytes
    would otherwise be taken for a batch of numbers."""
    if isinstance(batch, Payload | str):
        raise TypeError(
            f"a batch is a list of payloads, not {type(batch).__name__}: use `append` for a single payload"
        )
    return list(batch)


class CheckedBatch:
    """A validated batch. Raises TypeError for a value that is not a payload, and EntryTooLarge; in either case no
    payload is appended."""

    def __init__(self, payloads: Sequence[Payload], entry_bytes_max: int) -> None:
        given = listed(payloads)
        is_all_bytes = all(map(isinstance, given, repeat(bytes)))
        self.payloads: list[bytes] = given if is_all_bytes else list(map(as_bytes, given))  # type: ignore[assignment]
        sizes = list(map(len, self.payloads))
        self.size_bytes = sum(sizes)
        if (largest := max(sizes, default=0)) > entry_bytes_max:
            raise EntryTooLarge(largest, entry_bytes_max)
