"""Codec of the HDFS edit log: its segments, frames and ops, byte for byte. Pure: performs no I/O.

op_frames                    where ops begin and end, and whether they are complete
batches, scan                the formats of batches and of files; no op is decoded
crc_batch                    verifies the checksums of a whole batch in one pass
java, protobuf               the encodings of strings, numbers and messages
field_types, encoders        the encodings of fields, and of sequences of fields
blocks, permissions, xattrs  values that occur in several ops
op, ops                      every op as a dataclass, its fields in the order of their bytes
codec, as_xml                converts ops from and to bytes, and to JSON and the XML of Hadoop's own tool
"""

from __future__ import annotations

from . import ops as ops
from .as_xml import op_to_xml as op_to_xml
from .batches import check_batch as check_batch
from .batches import frame_offsets as frame_offsets
from .batches import slice_batch as slice_batch
from .codec import decode_op as decode_op
from .codec import encode_op as encode_op
from .codec import iter_ops as iter_ops
from .codec import iter_segment as iter_segment
from .codec import op_to_json as op_to_json
from .errors import BrokenFrame as BrokenFrame
from .errors import BrokenHeader as BrokenHeader
from .errors import BrokenOp as BrokenOp
from .errors import EditLogError as EditLogError
from .errors import UnknownLayout as UnknownLayout
from .errors import UnknownOp as UnknownOp
from .op import NEWEST_LAYOUT as NEWEST_LAYOUT
from .op import OPS as OPS
from .op import EditOp as EditOp
from .op_frames import HEADER_BYTES as HEADER_BYTES
from .op_frames import INVALID_TXID as INVALID_TXID
from .op_frames import OLDEST_LAYOUT as OLDEST_LAYOUT
from .op_frames import OP_BYTES_MAX as OP_BYTES_MAX
from .op_frames import OP_BYTES_MIN as OP_BYTES_MIN
from .op_frames import PREALLOCATION_BYTES as PREALLOCATION_BYTES
from .op_frames import TERMINATOR as TERMINATOR
from .op_frames import decode_header as decode_header
from .op_frames import encode_frame as encode_frame
from .op_frames import encode_header as encode_header
from .op_frames import frame_at as frame_at
from .op_frames import segment_bytes as segment_bytes
from .scan import Damage as Damage
from .scan import SegmentScan as SegmentScan
from .scan import scan_segment as scan_segment
