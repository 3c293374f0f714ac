"""Builds Arrow columns of entries from a page's columns, without processing entries one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgers import Columns, LedgerRecord

TYPES: dict[str, tuple[str, pa.DataType]] = {
    "ledger_id": ("bigint", pa.int64()),
    "entry_id": ("bigint", pa.int64()),
    "payload": ("binary", pa.binary()),
    "bytes": ("bigint", pa.int64()),
    "fragment": ("int", pa.int32()),
    "bookies": ("array<string>", pa.list_(pa.string())),
    "last_add_confirmed": ("bigint", pa.int64()),
}
"""Every column: its Spark type and its Arrow type."""

DEFAULT_COLUMNS = ("ledger_id", "entry_id", "payload")


class EntryColumns:
    """Builds record batches of the selected columns from the pages of one ledger."""

    def __init__(self, record: LedgerRecord, names: Sequence[str]) -> None:
        self.schema = pa.schema([(name, TYPES[name][1]) for name in names])
        self._record = record
        self._names = names
        self._starts = np.array([fragment.first_entry for fragment in record.fragments], dtype="<i8")
        self._write_sets = _write_sets(record) if "bookies" in names else None

    def batch(self, page: Columns) -> pa.RecordBatch:
        """Returns one row per entry in the page. Does not copy the payload."""
        ids = np.frombuffer(page.entry_ids, dtype="<i8")
        return pa.RecordBatch.from_arrays(
            [self._column(name, ids, page) for name in self._names], schema=self.schema
        )

    def _column(self, name: str, ids: npt.NDArray[np.int64], page: Columns) -> pa.Array:
        match name:
            case "ledger_id":
                return pa.array(np.full(len(ids), self._record.ledger_id, dtype="<i8"))
            case "entry_id":
                return pa.array(ids)
            case "payload":
                return _payloads(page, len(ids))
            case "bytes":
                return pa.array(np.frombuffer(page.lengths, dtype="<u4").astype("<i8"))
            case "fragment":
                return pa.array(self._fragments(ids).astype("<i4"))
            case "bookies":
                return self._bookies(ids)
            case "last_add_confirmed":
                return pa.array(np.full(len(ids), self._record.last_entry, dtype="<i8"))
        raise AssertionError(f"there is no column {name}")

    def _fragments(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._starts, ids, side="right") - 1

    def _bookies(self, ids: npt.NDArray[np.int64]) -> pa.Array:
        assert self._write_sets is not None
        ensemble = self._record.shape.ensemble_size
        return self._write_sets.take(pa.array(self._fragments(ids) * ensemble + ids % ensemble))


def _payloads(page: Columns, count: int) -> pa.Array:
    offsets = np.zeros(count + 1, dtype="<i4")
    np.cumsum(np.frombuffer(page.lengths, dtype="<u4"), out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(page.payload)]
    )


def _write_sets(record: LedgerRecord) -> pa.Array:
    """Returns the bookies of each write set of each fragment (rule W1). The column `bookies` takes the value for each
    entry from this array."""
    shape = record.shape
    rows = [
        [fragment.ensemble[(residue + k) % shape.ensemble_size].bookie_id for k in range(shape.write_quorum)]
        for fragment in record.fragments
        for residue in range(shape.ensemble_size)
    ]
    return pa.array(rows, type=pa.list_(pa.string()))
