"""Edits that tell who wrote them: real frames, of one length, so that content is compared as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from qjm_compat.edits import encode_frame

FRAME_BYTES = 18
_OPCODE = 24


@lru_cache(maxsize=50_000)
def frame(tag: int, txid: int) -> bytes:
    """One edit; `tag` says which attempt to write it was."""
    return encode_frame(_OPCODE, txid, bytes((tag,)))


def frames(tag: int, first_txid: int, num_txns: int) -> bytes:
    return b"".join([frame(tag, txid) for txid in range(first_txid, first_txid + num_txns)])


def edits_in(first_txid: int, records: bytes) -> Iterator[tuple[int, bytes]]:
    """Each with its txid."""
    for n in range(len(records) // FRAME_BYTES):
        yield first_txid + n, records[n * FRAME_BYTES : (n + 1) * FRAME_BYTES]


def frame_in(content: bytes, start_txid: int, txid: int) -> bytes:
    """The edit of a txid in content that begins with `start_txid`."""
    begin = (txid - start_txid) * FRAME_BYTES
    return content[begin : begin + FRAME_BYTES]
