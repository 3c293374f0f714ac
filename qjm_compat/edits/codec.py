"""Decodes and encodes ops. Decoding an op and encoding it again with the same layout yields the same bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from .errors import BrokenFrame, BrokenOp
from .op import NEWEST_LAYOUT, EditOp, check_absent, layout_of
from .op_frames import HEADER_BYTES, OP_BYTES_MIN, Buffer, decode_header, encode_frame, frame_at
from .scan import scan_segment

_BODY_AT = 13
_CRC_BYTES = OP_BYTES_MIN - _BODY_AT


def decode_op(frame: Buffer, layout_version: int) -> EditOp:
    """Decodes the op in one complete frame.

    Raises BrokenFrame, UnknownLayout, UnknownOp, or BrokenOp for an invalid body; all are EditLogErrors.
    """
    opcode, txid, end = frame_at(frame, 0)
    if end != len(frame):
        raise BrokenFrame(end, f"{len(frame) - end} bytes follow the op")
    return _decode(opcode, txid, bytes(frame[_BODY_AT : end - _CRC_BYTES]), layout_version)


def iter_ops(records: Buffer, layout_version: int) -> Iterator[EditOp]:
    """Decodes complete frames without a header, up to the first invalid one. Raises the same errors as `decode_op`."""
    view = memoryview(records)
    offset = 0
    while offset < len(view):
        opcode, txid, end = frame_at(view, offset)
        yield _decode(opcode, txid, bytes(view[offset + _BODY_AT : end - _CRC_BYTES]), layout_version)
        offset = end


def iter_segment(data: Buffer) -> Iterator[EditOp]:
    """Decodes the ops of a complete segment file, up to its padding.

    Raises BrokenHeader, or the errors of `decode_op`. If the file is damaged, raises BrokenFrame after yielding the ops
    before the damage. Offsets in errors are relative to the start of the file.
    """
    view = memoryview(data)
    layout_version = decode_header(view)
    scan = scan_segment(view)
    end = scan.damage[0].offset if scan.damage else scan.valid_bytes
    yield from iter_ops(view[HEADER_BYTES:end], layout_version)
    if scan.damage:
        raise BrokenFrame(end, scan.damage[0].reason)


def encode_op(op: EditOp, layout_version: int) -> bytes:
    """Encodes the op as a complete frame.

    Raises UnknownLayout, or BrokenOp if a value cannot be encoded in this layout.
    """
    layout = layout_of(op.opcode, layout_version)
    if layout.absent:
        check_absent(op, layout, layout_version)
    try:
        return encode_frame(op.opcode, op.txid, layout.write(op))
    except (BrokenOp, struct.error, ValueError) as error:
        raise BrokenOp(f"{op.name} {op.txid}: {error}") from error


def op_to_json(op: EditOp) -> dict[str, object]:
    """Converts the op to JSON: its txid, its name (as `op`) and its fields. Bytes are in hex, modes in octal, times in
    milliseconds.

    Includes all fields, even those that do not exist in the op's layout.
    """
    layout = layout_of(op.opcode, NEWEST_LAYOUT)
    shown = {name: kind.to_json(getattr(op, name)) for name, kind in layout.fields}
    return {"txid": op.txid, "op": op.name, **shown}


def _decode(opcode: int, txid: int, body: bytes, layout_version: int) -> EditOp:
    layout = layout_of(opcode, layout_version)
    values: dict[str, object] = {"txid": txid}
    at, name = 0, ""
    try:
        for name, read in layout.readers:
            values[name], at = read(body, at)
    except BrokenOp as error:
        raise BrokenOp(
            f"{layout.cls.name} {txid}: field {name}, after byte {at} of the body: {error}"
        ) from error
    except (struct.error, IndexError) as error:
        raise BrokenOp(
            f"{layout.cls.name} {txid}: the body of {len(body)} bytes ends within field {name}"
        ) from error
    if at != len(body):
        raise BrokenOp(f"{layout.cls.name} {txid}: {len(body) - at} bytes of its body are left over")
    return layout.cls(**values)  # type: ignore[arg-type]
