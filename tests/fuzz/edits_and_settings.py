"""Edit logs, which other programs wrote, and what people write: addresses, options, offsets of streams."""

from __future__ import annotations

import json
from typing import Any

from metadata.etcd.etcd_uri import config_in
from metadata.sqlite.sqlite_uri import path_in
from metadata.uris import split
from qjm_compat.edits import EditLogError
from qjm_compat.edits.codec import decode_op, encode_op, iter_segment, op_to_json
from qjm_compat.edits.op_frames import encode_frame, segment_bytes
from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.files.names import parsed
from spark.planning.selection import BadSelection, parse_ledgers
from spark.stream.offsets import BadOffset, JournalOffset, LedgersOffset
from tests.qjm_compat.edits import sample_ops

from .target import Target

LAYOUTS = (-57, -60, -63, -64, -65, -66, -67)


def targets() -> list[Target]:
    return [
        Target("edit_segment", segment, (EditLogError,), _segments),
        Target("edit_op", op, (EditLogError,), _ops),
        Target(
            "edit_file_name",
            lambda data: parsed(_text(data)),
            (TransferRefused,),
            lambda: [b"edits_0000001-0000009"],
        ),
        Target(
            "uri", uri, (ValueError, OSError), lambda: [b"etcd://a:2379,[::1]:2/p?user=x", b"sqlite:///a/b"]
        ),
        Target("ledgers_offset", ledgers_offset, (BadOffset,), lambda: [_json(LedgersOffset(3).to_json())]),
        Target(
            "journal_offset", journal_offset, (BadOffset,), lambda: [b'{"journal": "j", "acceptors": ""}']
        ),
        Target(
            "ledgers_option",
            lambda data: parse_ledgers(_text(data)),
            (BadSelection,),
            lambda: [b"7,2-3,5:1-9"],
        ),
    ]


def segment(data: bytes) -> None:
    for one in iter_segment(data):
        op_to_json(one)


def op(data: bytes) -> None:
    """Any body under any code and layout; what is understood is an op of just these bytes."""
    if len(data) < 2:
        return
    layout = LAYOUTS[data[0] % len(LAYOUTS)]
    frame = encode_frame(data[1], 7, data[2:])
    found = decode_op(frame, layout)
    op_to_json(found)
    assert encode_op(found, layout) == frame


def uri(data: bytes) -> None:
    parts = split(_text(data))
    config_in(parts)
    path_in(parts)


def ledgers_offset(data: bytes) -> None:
    if (value := _value(data)) is not None:
        LedgersOffset.from_json(value)


def journal_offset(data: bytes) -> None:
    if (value := _value(data)) is not None:
        JournalOffset.from_json(value, "j", "")


def _value(data: bytes) -> Any:
    """JSON, which Spark has checked before it asks us."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _segments() -> list[bytes]:
    frames = [encode_op(one, -67) for one in sample_ops.sample_ops()[:6]]
    return [segment_bytes(-67, frames), segment_bytes(-63, frames[:1], padding=False)]


def _ops() -> list[bytes]:
    """Layout, code, body."""
    ops = [*sample_ops.sample_ops(), *sample_ops.newer_ops()]
    frames = [encode_op(one, -67) for one in ops]
    return [bytes([LAYOUTS.index(-67), frame[0]]) + frame[13:-4] for frame in frames]
