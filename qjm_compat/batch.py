"""Encodes a batch of edits as ledger entries: one entry, or several if the batch is large.

Each entry begins with a header: the version, flags, the number of this part, the number of transactions in the batch,
the batch's first txid, the highest committed txid known to its writer, and the writer's epoch. All integers are
big-endian. A batch counts only if its last part exists.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from .errors import BadRequest, SegmentUnreadable

PART_BYTES_MAX = 1024 * 1024
"""Maximum number of bytes of edits in one entry; a larger batch is split."""

BATCH_BYTES_MAX = 128 * 1024 * 1024
"""Maximum size of a batch, which is also the maximum that Hadoop's own IPC carries."""

_HEADER = struct.Struct(">BBHIqqq")
_VERSION = 1
_LAST_PART = 1
_NO_TXID = -1


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of an entry. Parts are numbered from 0."""

    first_txid: int
    num_txns: int
    committed_txid: int | None
    writer_epoch: int
    part: int = 0
    is_last_part: bool = True

    @property
    def last_txid(self) -> int:
        return self.first_txid + self.num_txns - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """Edits written in one flush: the op frames of `first_txid` … `last_txid`."""

    first_txid: int
    num_txns: int
    records: bytes = field(repr=False)
    committed_txid: int | None = None
    writer_epoch: int = 0

    @property
    def last_txid(self) -> int:
        return self.first_txid + self.num_txns - 1


def entries_of(batch: Batch) -> list[bytes]:
    """Returns the entries to append, in order. Raises BadRequest for a batch over BATCH_BYTES_MAX."""
    size = len(batch.records)
    if size > BATCH_BYTES_MAX:
        raise BadRequest(f"a batch of {size} bytes is over the limit of {BATCH_BYTES_MAX}")
    if size <= PART_BYTES_MAX:
        return [_header(batch, 0, is_last=True) + batch.records]
    view = memoryview(batch.records)
    starts = range(0, size, PART_BYTES_MAX)
    return [
        _header(batch, part, is_last=start + PART_BYTES_MAX >= size)
        + bytes(view[start : start + PART_BYTES_MAX])
        for part, start in enumerate(starts)
    ]


def _header(batch: Batch, part: int, *, is_last: bool) -> bytes:
    committed = _NO_TXID if batch.committed_txid is None else batch.committed_txid
    flags = _LAST_PART if is_last else 0
    return _HEADER.pack(
        _VERSION, flags, part, batch.num_txns, batch.first_txid, committed, batch.writer_epoch
    )


def header_of(payload: bytes) -> BatchHeader:
    """Decodes an entry's header. Raises SegmentUnreadable if the entry does not have one."""
    if len(payload) < _HEADER.size or payload[0] != _VERSION:
        raise SegmentUnreadable(
            f"an entry of {len(payload)} bytes that begins with {payload[:1].hex() or 'nothing'} is not a batch of "
            "edits"
        )
    _, flags, part, num_txns, first_txid, committed, epoch = _HEADER.unpack_from(payload)
    if num_txns < 1 or first_txid < 1:
        raise SegmentUnreadable(f"invalid batch header: {num_txns} transactions from txid {first_txid} on")
    return BatchHeader(
        first_txid,
        num_txns,
        None if committed == _NO_TXID else committed,
        epoch,
        part,
        bool(flags & _LAST_PART),
    )


class Assembler:
    """Reassembles batches from the entries of a ledger, which must be passed in ledger order."""

    def __init__(self) -> None:
        self._header: BatchHeader | None = None
        self._parts: list[bytes] = []
        self._bytes = 0

    @property
    def is_between_batches(self) -> bool:
        return self._header is None

    def feed(self, payload: bytes) -> Batch | None:
        """Returns the batch that this entry completes, or None if it completes none. Raises SegmentUnreadable if a part
        is missing."""
        header = header_of(payload)
        if header.part == 0:
            self._begin()  # drops the parts of a batch that its writer abandoned
            if header.is_last_part:
                return _batch(header, payload[_HEADER.size :])
        elif not self._continues(header):
            raise SegmentUnreadable(
                f"part {header.part} of the batch that begins at txid {header.first_txid} follows another batch"
            )
        self._header = header
        self._parts.append(payload[_HEADER.size :])
        self._bytes += len(payload)
        if self._bytes > 2 * BATCH_BYTES_MAX:
            raise SegmentUnreadable(f"the batch that begins at txid {header.first_txid} has no last part")
        if not header.is_last_part:
            return None
        records = b"".join(self._parts)
        self._begin()
        return _batch(header, records)

    def _begin(self) -> None:
        self._header, self._parts, self._bytes = None, [], 0

    def _continues(self, header: BatchHeader) -> bool:
        before = self._header
        return (
            before is not None and before.part + 1 == header.part and before.first_txid == header.first_txid
        )


def _batch(header: BatchHeader, records: bytes) -> Batch:
    return Batch(header.first_txid, header.num_txns, records, header.committed_txid, header.writer_epoch)
