"""Columns of edits against the codec's own decoding, for every op there is."""

from __future__ import annotations

import json
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.edits import (
    HEADER_BYTES,
    OPS,
    EditLogError,
    EditOp,
    encode_frame,
    encode_op,
    op_to_json,
    scan_segment,
)
from qjm_compat.edits.ops import namespace
from spark.edits.fields import COLUMNS
from spark.edits.frames import slices
from spark.edits.reading import OF_FRAMES, EditColumns
from tests.qjm_compat.edits.made_ops import any_op, numbered
from tests.qjm_compat.edits.real_segments import NAMES, needs_segments, records_of, segment
from tests.qjm_compat.edits.sample_ops import sample_ops
from tests.spark.edits.made_edits import LAYOUT, batch_of, rows_of


@given(st.lists(any_op(LAYOUT), max_size=5))
def test_every_op_is_a_row_with_all_its_fields_and_its_frame(drawn: list[EditOp]) -> None:
    ops = numbered(drawn, 100)
    for op, row in zip(ops, rows_of(ops), strict=True):
        assert (row["txid"], row["op"], row["segment"], row["layout_version"]) == (
            op.txid,
            op.name,
            1,
            LAYOUT,
        )
        assert row["body"] == encode_op(op, LAYOUT)
        assert json.loads(str(row["fields"])) == json.loads(json.dumps(op_to_json(op)))


def test_every_field_that_fills_a_column_is_a_field_of_some_op() -> None:
    """Also those within others: a name with a slip of the pen would be null for ever."""
    known = set()
    for cls in OPS.values():
        for name, kind in get_type_hints(cls).items():
            inner = getattr(kind, "__dataclass_fields__", ())
            known |= {name, *(f"{name}.{one}" for one in inner)}
    assert {field for column in COLUMNS.values() for field in column.fields} <= known


def test_every_op_whose_fields_name_a_path_has_a_path() -> None:
    rows = rows_of(sample_ops())
    without = [row["op"] for row in rows if _paths_in(json.loads(str(row["fields"]))) and not row["path"]]
    assert without == []


@needs_segments
@pytest.mark.parametrize("name", NAMES)
def test_every_op_of_a_real_log_that_names_a_path_has_it(name: str) -> None:
    rows = _real_rows(name, ("path", "fields"))
    for row in rows:
        named = _paths_in(json.loads(str(row["fields"])))
        assert row["path"] in named if named else row["path"] is None, row


@needs_segments
@pytest.mark.parametrize("name", NAMES)
def test_ops_of_a_real_log_have_the_names_that_hadoop_prints(name: str) -> None:
    printed = [
        (int(one.findtext("DATA/TXID") or 0), one.findtext("OPCODE") or "") for one in records_of(name)
    ]
    assert [(row["txid"], row["op"]) for row in _real_rows(name, ("txid", "op"))] == printed


def test_what_frames_tell_is_read_of_an_op_that_nobody_knows() -> None:
    known = encode_op(namespace.Delete(txid=1, path="/a", timestamp_ms=0), LAYOUT)
    unknown = encode_frame(127, 2, b"what it says")
    asked = ("txid", "body", "segment", "layout_version")
    assert batch_of(known + unknown, asked).to_pylist() == [
        {"txid": 1, "body": known, "segment": 1, "layout_version": LAYOUT},
        {"txid": 2, "body": unknown, "segment": 1, "layout_version": LAYOUT},
    ]
    for column in ("path", "fields", "op"):
        with pytest.raises(EditLogError, match="txid 2, of op code 127, cannot be decoded"):
            batch_of(known + unknown, ("txid", column))


def test_the_body_of_a_layout_that_nobody_knows_is_read() -> None:
    frame = encode_op(namespace.Delete(txid=1, path="/a", timestamp_ms=0), LAYOUT)
    asked = tuple(sorted(OF_FRAMES))
    (row,) = EditColumns(1, -99, asked).batch(next(slices(frame))).to_pylist()
    assert (row["op"], row["layout_version"], row["body"]) == ("OP_DELETE", -99, frame)
    with pytest.raises(EditLogError, match=r"txid 1, of op code 2, cannot be decoded \(layout -99"):
        EditColumns(1, -99, ("path",)).batch(next(slices(frame)))


def _real_rows(name: str, names: tuple[str, ...]) -> list[dict[str, object]]:
    data = segment(name)
    return rows_of(memoryview(data)[HEADER_BYTES : scan_segment(data).valid_bytes], names)


def _paths_in(value: object) -> set[str]:
    """All texts in JSON that look like a path."""
    if isinstance(value, dict):
        return _paths_in(list(value.values()))
    if isinstance(value, list):
        return set().union(*map(_paths_in, value))
    return {value} if isinstance(value, str) and value.startswith("/") else set()
