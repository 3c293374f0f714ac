"""The blocks of a file, encoded in full or as differences from the previous block."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated

from .field_types import I64, FieldType, array, check_count, record
from .java import read_vint, read_vlong, write_vint, write_vlong

BLOCKS_MAX = 64 * 1024 * 1024
"""Maximum number of blocks in a file."""

_BLOCK_ID = struct.Struct(">q")
_COMPACT_BYTES_MIN = _BLOCK_ID.size + 2


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a file, with the length it had when the op was logged."""

    block_id: I64
    length_bytes: I64
    genstamp: I64


def _wrapped(value: int) -> int:
    """Wraps a number to 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _read_compact(data: bytes, at: int) -> tuple[tuple[Block, ...], int]:
    count, at = read_vint(data, at)
    check_count(count, min(BLOCKS_MAX, (len(data) - at) // _COMPACT_BYTES_MIN))
    blocks, length, genstamp = [], 0, 0
    for _ in range(count):
        block_id = _BLOCK_ID.unpack_from(data, at)[0]
        longer, at = read_vlong(data, at + _BLOCK_ID.size)
        later, at = read_vlong(data, at)
        length, genstamp = _wrapped(length + longer), _wrapped(genstamp + later)
        blocks.append(Block(block_id, length, genstamp))
    return tuple(blocks), at


def _write_compact(blocks: tuple[Block, ...]) -> bytes:
    check_count(len(blocks), BLOCKS_MAX)
    parts, before = [write_vint(len(blocks))], Block(0, 0, 0)
    for block in blocks:
        parts.append(_BLOCK_ID.pack(block.block_id))
        parts.append(write_vlong(_wrapped(block.length_bytes - before.length_bytes)))
        parts.append(write_vlong(_wrapped(block.genstamp - before.genstamp)))
        before = block
    return b"".join(parts)


_BLOCKS = array(record(Block), BLOCKS_MAX)

Blocks = Annotated[tuple[Block, ...], _BLOCKS]
CompactBlocks = Annotated[tuple[Block, ...], FieldType(_read_compact, _write_compact, _BLOCKS.to_json)]
