"""Codec of the HDFS edit log: its segments, frames and ops, byte for byte. Pure: no input or output.

frames                  where ops begin and end, and whether they are whole
batches, scan           what writers send, and what files hold; no op is decoded
java, protobuf          how strings, numbers and messages are encoded
field_types, encoders   the same of fields, and of many in sequence
blocks, access, xattrs  values that several ops have
op, ops                 every op as a dataclass, its fields in the order of their bytes
codec, as_xml           ops from bytes and back; as JSON, and as Hadoop's own tool prints them
"""

from __future__ import annotations

from . import ops
from .as_xml import op_to_xml
from .batches import check_batch, frame_offsets, slice_batch
from .codec import decode_op, encode_op, iter_ops, iter_segment, op_to_json
from .errors import BrokenFrame, BrokenHeader, BrokenOp, EditLogError, UnknownLayout, UnknownOp
from .frames import (
    HEADER_BYTES,
    INVALID_TXID,
    OLDEST_LAYOUT,
    OP_BYTES_MAX,
    OP_BYTES_MIN,
    PREALLOCATION_BYTES,
    TERMINATOR,
    decode_header,
    encode_frame,
    encode_header,
    frame_at,
    segment_bytes,
)
from .op import NEWEST_LAYOUT, OPS, EditOp
from .scan import Damage, SegmentScan, scan_segment

__all__ = [
    "BrokenFrame",
    "BrokenHeader",
    "BrokenOp",
    "Damage",
    "EditLogError",
    "EditOp",
    "HEADER_BYTES",
    "INVALID_TXID",
    "NEWEST_LAYOUT",
    "OLDEST_LAYOUT",
    "OPS",
    "OP_BYTES_MAX",
    "OP_BYTES_MIN",
    "PREALLOCATION_BYTES",
    "SegmentScan",
    "TERMINATOR",
    "UnknownLayout",
    "UnknownOp",
    "check_batch",
    "decode_header",
    "decode_op",
    "encode_frame",
    "encode_header",
    "encode_op",
    "frame_at",
    "frame_offsets",
    "iter_ops",
    "iter_segment",
    "op_to_json",
    "op_to_xml",
    "ops",
    "scan_segment",
    "segment_bytes",
    "slice_batch",
]
