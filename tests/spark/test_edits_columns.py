"""Columns of edits against the codec's own decoding, for every op there is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.edits import EditLogError, EditOp, encode_op, op_to_json
from qjm_compat.edits.ops import namespace
from spark.edits_columns import COLUMNS, EditColumns
from tests.qjm_compat.edits.made_ops import any_op, numbered
from tests.qjm_compat.edits.sample_ops import CLIENT, NOON_MS, PERMISSION

LAYOUT = -63


def rows_of(ops: list[EditOp], names: tuple[str, ...] = tuple(COLUMNS)) -> list[dict[str, object]]:
    records = b"".join([encode_op(op, LAYOUT) for op in ops])
    batch = EditColumns(1, LAYOUT, names).batch(records)
    batch.validate(full=True)
    found: list[dict[str, object]] = batch.to_pylist()
    return found


@given(st.lists(any_op(LAYOUT), max_size=5))
def test_every_op_is_a_row_with_all_its_fields_and_its_frame(drawn: list[EditOp]) -> None:
    ops = numbered(drawn, 100)
    names = tuple(name for name in COLUMNS if name != "timestamp")  # some are past what Python can show
    for op, row in zip(ops, rows_of(ops, names), strict=True):
        assert (row["txid"], row["op"], row["segment"], row["layout_version"]) == (
            op.txid,
            op.name,
            1,
            LAYOUT,
        )
        assert row["body"] == encode_op(op, LAYOUT)
        assert json.loads(str(row["fields"])) == json.loads(json.dumps(op_to_json(op)))
        path = next((getattr(op, f) for f in COLUMNS["path"].fields if hasattr(op, f)), None)
        assert row["path"] == (path.encode("utf-8", "backslashreplace").decode() if path else None)


def test_the_fields_asked_for_most_have_columns() -> None:
    made = namespace.Mkdir(txid=1, inode_id=7, path="/a", mtime_ms=NOON_MS, atime_ms=0, permission=PERMISSION)
    gone = namespace.Delete(txid=2, path="/a", timestamp_ms=NOON_MS, rpc_client_id=CLIENT, rpc_call_id=3)
    first, second = rows_of([made, gone])
    noon = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=NOON_MS)
    assert (first["username"], first["groupname"], first["mode"]) == ("ada", "staff", 0o750)
    assert (first["inode_id"], first["path"], first["timestamp"]) == (7, "/a", noon)
    assert (second["rpc_client_id"], second["rpc_call_id"], second["timestamp"]) == (CLIENT.hex(), 3, noon)
    assert second["username"] is None and first["rpc_call_id"] is None


def test_a_time_that_no_timestamp_can_say_is_null() -> None:
    (row,) = rows_of([namespace.Delete(txid=1, path="/a", timestamp_ms=2**63 - 1)])
    assert row["timestamp"] is None and "9223372036854775807" in str(row["fields"])


def test_half_a_character_of_javas_does_not_end_the_job() -> None:
    (row,) = rows_of([namespace.Delete(txid=1, path="/a\ud800ä", timestamp_ms=0)])
    assert row["path"] == "/a\\ud800ä"


def test_a_renaming_has_both_paths() -> None:
    (row,) = rows_of([namespace.RenameOld(txid=1, source="/a", target="/b", timestamp_ms=0)])
    assert (row["path"], row["target"]) == ("/a", "/b")


def test_an_op_that_no_client_asked_for_has_no_client() -> None:
    """Else a join on the client would take all of these for one."""
    (row,) = rows_of([namespace.Delete(txid=1, path="/a", timestamp_ms=0)])
    assert (row["rpc_client_id"], row["rpc_call_id"]) == (None, None)


def test_what_cannot_be_decoded_is_an_error() -> None:
    frame = bytearray(encode_op(namespace.Delete(txid=1, path="/a", timestamp_ms=0), LAYOUT))
    frame[-1] ^= 1
    with pytest.raises(EditLogError):
        EditColumns(1, LAYOUT, ("txid",)).batch(bytes(frame))
