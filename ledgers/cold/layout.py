"""The format of objects (FORMAT.md): blocks of entries, then an index of them, then a footer of fixed size. Pure.

object  MAGIC, blocks, index, footer
block   the entries' lengths, digests and payloads, one column after the other as on the wire, without ids, which
        follow from the index. Stored as a zstd frame if that is smaller
index   `ColdIndex` of records.proto
footer  start of the index (u64), its length in bytes (u32), its CRC32C (u32), the format's version (u32), MAGIC
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from bookie.wire import Columns
from bookie.wire.columnar_entries import LENGTH_BYTES, consecutive
from metadata.records.notes import cold_index
from metadata.records.notes.cold_index import ColdIndex

from ..errors import LedgerError
from .errors import BadObject

MAGIC = b"BLCOLD\x00\x01"
FORMAT_VERSION = 1
BLOCK_BYTES = 8 * 1024 * 1024
"""Once a block has this size, no further page is added to it."""

INDEX_BYTES_MAX = 64 * 1024 * 1024
_FOOTER = struct.Struct("<QIII8s")
FOOTER_BYTES = _FOOTER.size

WORTH_IT = 0.9
"""A block is stored compressed if its compressed size is at most this fraction of its uncompressed size."""

ZSTD_LEVEL = 1

SAMPLE_BYTES = 512 * 1024
"""Size of the sample that is compressed first, to decide whether to compress a block. The sample consists of the
beginning of each page."""

Pieces = Sequence[bytes | memoryview]
"""The pieces of a block. They are written one after the other, because joining them would copy all entries."""


def add_block(index: ColdIndex, pages: Sequence[Columns], block: Pieces, *, is_compressed: bool) -> None:
    """Adds the next block of an object to its index."""
    if not index.first_entries:
        index.first_entries.append(pages[0].first_entry)
        index.offsets.append(len(MAGIC))
    index.first_entries.append(pages[-1].last_entry + 1)
    size = crc = 0
    for piece in block:
        size, crc = size + len(piece), crc32c(piece, crc)
    index.offsets.append(index.offsets[-1] + size)
    index.crcs.append(crc)
    index.compressed.append(is_compressed)


def end_of(index: ColdIndex) -> bytes:
    """Returns the encoded index and footer, which follow the blocks."""
    encoded = index.encode()
    return encoded + _FOOTER.pack(index.offsets[-1], len(encoded), crc32c(encoded), FORMAT_VERSION, MAGIC)


def index_bounds(footer: bytes | memoryview, size: int) -> tuple[int, int, int]:
    """Returns the start and end of the index in an object of this size, and its CRC. Raises BadObject."""
    if len(footer) != FOOTER_BYTES:
        raise BadObject(f"it has only {size} bytes and no footer")
    start, length, crc, version, magic = _FOOTER.unpack(footer)
    if magic != MAGIC:
        raise BadObject("it does not end with the marker of an object that holds a ledger")
    if version != FORMAT_VERSION:
        raise BadObject(f"format version {version}; this program supports {FORMAT_VERSION}")
    if start + length + FOOTER_BYTES != size or length > INDEX_BYTES_MAX:
        raise BadObject(
            f"according to its footer, an index of {length} bytes begins at byte {start} of {size}"
        )
    return start, start + length, crc


def read_index(index: bytes | memoryview, crc: int) -> ColdIndex:
    """Decodes an index. Raises BadObject."""
    if crc32c(index) != crc:
        raise BadObject("its index is damaged")
    try:
        return cold_index.decode(bytes(index))
    except ValueError as error:
        raise BadObject(f"its index cannot be decoded: {error}") from error


def encode_block(pages: Sequence[Columns]) -> tuple[Pieces, bool]:
    """Returns the pieces of a block of consecutive entries, and whether it is compressed. Run it in a thread: it
    releases the GIL."""
    columns = b"".join([*(page.lengths for page in pages), *(page.digests for page in pages)])
    raw: Pieces = [columns, *(page.payload for page in pages)]
    size = sum(map(len, raw))
    compress = _zstd().ZstdCompressor(level=ZSTD_LEVEL).compress
    sample = b"".join(piece[: math.ceil(len(piece) * SAMPLE_BYTES / size)] for piece in raw)
    if len(compress(sample)) > WORTH_IT * len(sample):
        return raw, False
    packed = compress(b"".join(raw))
    return ([packed], True) if len(packed) <= WORTH_IT * size else (raw, False)


def decode_block(index: ColdIndex, number: int, block: bytes | memoryview) -> Columns:
    """Decodes the entries of a block. Raises BadObject if the block differs from the one that was uploaded."""
    if crc32c(block) != index.crcs[number]:
        raise BadObject(f"block {number} is damaged")
    raw = memoryview(_zstd().ZstdDecompressor().decompress(block) if index.compressed[number] else block)
    first, count = index.first_entries[number], index.first_entries[number + 1] - index.first_entries[number]
    digests = LENGTH_BYTES * count
    payload = digests + index.digest_bytes * count
    columns = Columns(
        consecutive(first, count), bytes(raw[:digests]), bytes(raw[digests:payload]), raw[payload:]
    )
    columns.check()
    return columns


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise LedgerError("object stores need the extra `cold`: pip install 'bookledger[cold]'") from None
    return zstandard
