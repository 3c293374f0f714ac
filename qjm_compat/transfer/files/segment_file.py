"""Validates a whole segment file before any of it is used."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...batch import Batch
from ...edits import HEADER_BYTES, TERMINATOR, EditLogError, SegmentScan, scan_segment, slice_batch
from ...edits.op_frames import OP_BYTES_MIN
from ..errors import TransferRefused
from .names import SegmentName

PADDING = bytes([0, TERMINATOR])

PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """Edits that were found to be complete, undamaged and without a gap. `torn` describes the unusable data, if any,
    that a dead writer left after them."""

    first_txid: int
    last_txid: int
    layout_version: int
    in_progress: bool
    records: memoryview = field(repr=False)
    torn: str | None = None

    def up_to(self, txid: int) -> CheckedSegment:
        """Returns the same segment, cut off after this txid. A live writer may have added the later edits in the
        meantime."""
        records = slice_batch(self.records, self.first_txid, txid)
        return replace(self, last_txid=txid, records=records, torn=None)

    def from_txid(self, txid: int) -> memoryview:
        """Returns the frames from this txid on."""
        return slice_batch(self.records, txid, self.last_txid)


def checked_segment(folder: Path, name: SegmentName) -> CheckedSegment | None:
    """Returns the edits of a file, or None if the file is in progress and has no edits yet (Hadoop moves such files
    aside as .empty).

    A file in progress ends with its last valid op. Raises TransferRefused if the file is damaged, or if its edits do
    not match its name.
    """
    data = _content(folder / name.file, in_progress=name.last_txid is None)
    if name.last_txid is None and is_padding(data):
        return None
    try:
        scan = scan_segment(data)
    except EditLogError as error:
        raise TransferRefused(f"{name.file}: {error}") from error
    if name.last_txid is None and scan.is_empty and not scan.is_header_corrupt:
        return None
    _check(name, scan)
    assert scan.layout_version is not None
    return CheckedSegment(
        scan.first_txid,
        scan.last_txid,
        scan.layout_version,
        name.last_txid is None,
        data[HEADER_BYTES : scan.valid_bytes],
        f"from offset {scan.damage[0].offset} on: {scan.damage[0].reason}" if scan.damage else None,
    )


def is_padding(data: memoryview) -> bool:
    """Returns whether the data is nothing but padding: the file was allocated but never written to."""
    return all(
        not bytes(data[at : at + PIECE_BYTES]).strip(PADDING) for at in range(0, len(data), PIECE_BYTES)
    )


def batches_of(records: memoryview, first_txid: int, bytes_max: int) -> Iterator[Batch]:
    """Yields verified frames in batches of at most `bytes_max`. An op larger than that forms a separate batch."""
    begin = offset = 0
    first = txid = first_txid
    while offset < len(records):
        size = 5 + int.from_bytes(records[offset + 1 : offset + 5], "big")
        assert size >= OP_BYTES_MIN
        if offset > begin and offset + size - begin > bytes_max:
            yield Batch(first, txid - first, bytes(records[begin:offset]))
            begin, first = offset, txid
        offset, txid = offset + size, txid + 1
    if offset > begin:
        yield Batch(first, txid - first, bytes(records[begin:offset]))


def _content(path: Path, *, in_progress: bool) -> memoryview:
    """Returns the file's bytes. Maps the file into memory, but not while it is in progress: its writer will truncate it
    at the end, and accessing a truncated mapping would crash."""
    if in_progress:
        return memoryview(path.read_bytes())
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _check(name: SegmentName, scan: SegmentScan) -> None:
    torn = name.last_txid is None and scan.damaged_places == 1 and scan.damage[0].offset >= scan.valid_bytes
    if scan.damage and not torn:
        worst = scan.damage[0]
        raise TransferRefused(f"{name.file} is damaged at offset {worst.offset}: {worst.reason}")
    if scan.is_empty:
        raise TransferRefused(f"{name.file} holds no edits" + (": it is damaged" if scan.damage else ""))
    if not scan.is_contiguous:
        raise TransferRefused(f"{name.file}: its {scan.ops} txids are not consecutive")
    last = scan.last_txid if name.last_txid is None else name.last_txid
    if (scan.first_txid, scan.last_txid) != (name.first_txid, last):
        raise TransferRefused(f"{name.file} holds txids {scan.first_txid} to {scan.last_txid}")
