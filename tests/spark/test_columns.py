"""Columns of entries against a slow way of making them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire.columnar_entries import of_payloads
from ledgers import LedgerRecord
from spark.entry_columns import TYPES, EntryColumns
from spark.executors import range_reader
from spark.executors.range_reader import joined
from tests.spark.made import closed, records


def slow_rows(record: LedgerRecord, first_entry: int, payloads: list[bytes]) -> list[dict[str, Any]]:
    rows = []
    for entry_id, payload in enumerate(payloads, first_entry):
        fragment = max(n for n, f in enumerate(record.fragments) if f.first_entry <= entry_id)
        ensemble = record.fragments[fragment].ensemble
        write_set = [ensemble[(entry_id + k) % len(ensemble)] for k in range(record.shape.write_quorum)]
        rows.append(
            {
                "ledger_id": record.ledger_id,
                "entry_id": entry_id,
                "payload": payload,
                "bytes": len(payload),
                "fragment": fragment,
                "bookies": [bookie.bookie_id for bookie in write_set],
                "last_add_confirmed": record.last_entry,
            }
        )
    return rows


@given(records(7), st.lists(st.binary(max_size=20), min_size=1, max_size=50), st.integers(0, 5000))
def test_every_column_is_what_it_should_be_for_each_entry(
    record: LedgerRecord, payloads: list[bytes], first_entry: int
) -> None:
    page = of_payloads(first_entry, payloads, bytes(4 * len(payloads)))
    batch = EntryColumns(record, tuple(TYPES)).batch(page)
    batch.validate(full=True)
    assert batch.to_pylist() == slow_rows(record, first_entry, payloads)


def test_only_the_columns_asked_for_are_made_in_the_order_asked_for() -> None:
    page = of_payloads(0, [b"a", b"bc"], bytes(8))
    batch = EntryColumns(closed(1, 2, 3), ("bytes", "ledger_id")).batch(page)
    assert batch.to_pydict() == {"bytes": [1, 2], "ledger_id": [1, 1]}


def test_payloads_are_not_copied() -> None:
    page = of_payloads(0, [b"a" * 1000, b"b" * 1000], bytes(8))
    batch = EntryColumns(closed(1, 2, 2000), ("payload",)).batch(page)
    assert batch.column(0).buffers()[2].address == pa.py_buffer(page.payload).address


@dataclass(frozen=True)
class _Rows:
    """Pages of so many entries of 100 bytes."""

    sizes: list[int]

    def batches(self) -> list[pa.RecordBatch]:
        columns, first, found = EntryColumns(closed(1, 10_000, 0), ("entry_id", "payload")), 0, []
        for size in self.sizes:
            payloads = [struct.pack("<i", first + n) * 25 for n in range(size)]
            found.append(columns.batch(of_payloads(first, payloads, bytes(4 * size))))
            first += size
        return found


@given(st.lists(st.integers(1, 40), max_size=30).map(_Rows))
def test_joined_batches_hold_the_same_rows_and_only_the_last_is_small(rows: _Rows) -> None:
    least, range_reader.BATCH_BYTES_MIN = range_reader.BATCH_BYTES_MIN, 3000
    try:
        made = list(joined(rows.batches()))
    finally:
        range_reader.BATCH_BYTES_MIN = least
    assert [row for b in made for row in b.to_pylist()] == [
        row for b in rows.batches() for row in b.to_pylist()
    ]
    assert all(batch.nbytes >= 3000 for batch in made[:-1])
    assert all(batch.nbytes < 3000 + 40 * 200 for batch in made)
