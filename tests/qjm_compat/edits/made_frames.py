"""Frames of ops that nobody decodes, and what can happen to them."""

from __future__ import annotations

from qjm_compat.edits import encode_frame

MKDIR, END = 3, 23


def frame(txid: int, body: bytes = b"some body") -> bytes:
    return encode_frame(MKDIR, txid, body)


def frames(first_txid: int, count: int) -> list[bytes]:
    """Consecutive transactions of different sizes, the smallest with nothing in it."""
    return [frame(txid, bytes([txid % 251]) * (txid % 7)) for txid in range(first_txid, first_txid + count)]


def batch(first_txid: int, count: int) -> bytes:
    return b"".join(frames(first_txid, count))


def damaged(data: bytes, offset: int) -> bytes:
    """The same with one bit another."""
    return data[:offset] + bytes([data[offset] ^ 0x10]) + data[offset + 1 :]
