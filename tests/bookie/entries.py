"""Entries one by one, the slow and obvious form of columns, and ways to make frames of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from crc32c import crc32c

from bookie.wire.columnar_entries import Columns
from bookie.wire.messages import Frame, LacStatement

Entry = tuple[int, bytes, bytes]
"""(entry id, payload, digest)"""


def columns_of(entries: Sequence[Entry]) -> Columns:
    return Columns(
        b"".join(struct.pack("<q", entry_id) for entry_id, _, _ in entries),
        b"".join(struct.pack("<I", len(payload)) for _, payload, _ in entries),
        b"".join(digest for _, _, digest in entries),
        b"".join(payload for _, payload, _ in entries),
    )


def entries_of(columns: Columns) -> list[Entry]:
    return [(entry_id, bytes(payload), bytes(digest)) for entry_id, payload, digest in columns.rows()]


def entry_of(ledger_id: int, entry_id: int, payload_bytes: int = 20) -> Entry:
    """The one entry that this ledger has under this id, in every copy."""
    seed = f"ledger {ledger_id} entry {entry_id} ".encode()
    payload = (seed * (payload_bytes // len(seed) + 1))[:payload_bytes]
    return entry_id, payload, struct.pack("<I", crc32c(payload))


def frame_of(
    ledger_id: int,
    entry_ids: Iterable[int],
    *,
    payload_bytes: int = 20,
    lac: int | None = None,
    recovery: bool = False,
) -> Frame:
    """A frame with these entries of the ledger, and a last-add-confirmed if there is one to tell."""
    columns = columns_of([entry_of(ledger_id, entry_id, payload_bytes) for entry_id in entry_ids])
    return Frame(ledger_id, columns, None if lac is None else lac_of(lac), recovery)


def lac_of(last_entry: int) -> LacStatement:
    return LacStatement(last_entry, (last_entry + 1) * 20, struct.pack("<q", last_entry))
