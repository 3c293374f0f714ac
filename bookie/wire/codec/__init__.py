"""Encodes and decodes messages: the only modules that touch the generated protobuf code.

Every message has a checksum and columns attached (`sealing`), and is encoded in parts. Decoding never trusts:
columns that do not fit together, a wrong checksum or an unknown status raise BadMessage, and nothing of the message
is used.
"""

from .appends import (
    APPEND_HEADER_BYTES_MAX,
    FRAMES_MAX,
    decode_append_reply,
    decode_append_request,
    encode_append_reply,
    encode_append_request,
)
from .parts import LAC_DIGEST_BYTES_MAX
from .reads import (
    decode_holdings_reply,
    decode_holdings_request,
    decode_lac_reply,
    decode_lac_request,
    decode_read_reply,
    decode_read_request,
    decode_scan_request,
    decode_taken,
    encode_holdings_reply,
    encode_holdings_request,
    encode_lac_reply,
    encode_lac_request,
    encode_read_reply,
    encode_read_request,
    encode_scan_request,
    encode_taken,
)
from .tools import (
    BUCKETS_MAX,
    decode_info_reply,
    decode_info_request,
    decode_maintain_reply,
    decode_maintain_request,
    decode_notes_reply,
    decode_notes_request,
    encode_info_reply,
    encode_info_request,
    encode_maintain_reply,
    encode_maintain_request,
    encode_notes_reply,
    encode_notes_request,
)

__all__ = [
    "APPEND_HEADER_BYTES_MAX",
    "BUCKETS_MAX",
    "FRAMES_MAX",
    "LAC_DIGEST_BYTES_MAX",
    "decode_append_reply",
    "decode_append_request",
    "decode_holdings_reply",
    "decode_holdings_request",
    "decode_info_reply",
    "decode_info_request",
    "decode_lac_reply",
    "decode_lac_request",
    "decode_maintain_reply",
    "decode_maintain_request",
    "decode_notes_reply",
    "decode_notes_request",
    "decode_read_reply",
    "decode_read_request",
    "decode_scan_request",
    "decode_taken",
    "encode_append_reply",
    "encode_append_request",
    "encode_holdings_reply",
    "encode_holdings_request",
    "encode_info_reply",
    "encode_info_request",
    "encode_lac_reply",
    "encode_lac_request",
    "encode_maintain_reply",
    "encode_maintain_request",
    "encode_notes_reply",
    "encode_notes_request",
    "encode_read_reply",
    "encode_read_request",
    "encode_scan_request",
    "encode_taken",
]
