"""Records of an append, checked before any is taken in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...entry import check_is_bytes
from ...errors import EntryTooLarge
from ..record_batch import HEAD_BYTES, NewRecord, entry_bytes


class CheckedRecords:
    """A checked batch. Raises TypeError for anything but `bytes` and NewRecord, and EntryTooLarge: then none of it is
    appended. `size_bytes`: what they take as entries."""

    def __init__(self, records: Sequence[bytes | NewRecord], entry_bytes_max: int) -> None:
        self.payloads = list(records)
        sizes = list(map(entry_bytes, self.payloads))
        self.size_bytes = sum(sizes)
        if (largest := max(sizes, default=0)) > entry_bytes_max:
            raise EntryTooLarge(largest, entry_bytes_max)


def checked_record(
    payload: bytes,
    key: bytes | None,
    headers: Mapping[str, bytes] | None,
    event_time: int | None,
    entry_bytes_max: int,
) -> tuple[bytes | NewRecord, int]:
    """What is appended, the payload alone where there is nothing else, and what it takes as an entry.

    Raises TypeError, ValueError, EntryTooLarge.
    """
    record: bytes | NewRecord
    if key is None and not headers and event_time is None:
        check_is_bytes(payload)
        record, size = payload, HEAD_BYTES + len(payload)
    else:
        record = NewRecord(payload, key, headers or {}, event_time)
        size = entry_bytes(record)
    if size > entry_bytes_max:
        raise EntryTooLarge(size, entry_bytes_max)
    return record, size
