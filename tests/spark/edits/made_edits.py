"""Edits as rows, without a Spark and without a ledger."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qjm_compat.edits import EditOp, encode_op
from qjm_compat.edits.op_frames import Buffer
from spark.edits.fields import COLUMNS
from spark.edits.frames import slices
from spark.edits.reading import EditColumns

LAYOUT = -63
ALL_COLUMNS = tuple(COLUMNS)


def batch_of(records: Buffer, names: Sequence[str] = ALL_COLUMNS, layout_version: int = LAYOUT) -> pa.Table:
    """Their record batches as one table."""
    columns = EditColumns(1, layout_version, names)
    table = pa.Table.from_batches([columns.batch(frames) for frames in slices(records)], columns.schema)
    table.validate(full=True)
    return table


def rows_of(
    edits: Sequence[EditOp] | memoryview, names: Sequence[str] = ALL_COLUMNS, layout_version: int = LAYOUT
) -> list[dict[str, object]]:
    """The rows of ops, or of frames."""
    if not isinstance(edits, memoryview):
        edits = memoryview(b"".join([encode_op(op, layout_version) for op in edits]))
    found: list[dict[str, object]] = batch_of(edits, names, layout_version).to_pylist()
    return found
