"""Salvages a damaged log: marks the losses with LOST records, so that the bookie can start again.

Only damaged bytes are lost. Every range that can no longer be read (`damage.py`) is copied to `salvaged/` and
overwritten with LOST records that cover it exactly. Reads of entries that the index places there get I/O errors. If
replay encounters a LOST record, the original records are unknown, and startup puts every ledger into limbo (rule R6).

Crash states of one segment, from each of which the next run completes the salvage:

1. A copy is incomplete: the log is unchanged. The next run makes its own copy.
2. Some LOST records are written, the last of the segment first: the rest of the range is followed by a record, so it
still counts as damage. If the log's end is unknown, the record that marks this is written before the preceding ones.
3. All of them are written but the header is not. The header is written last, even that of a missing segment, so that
no segment looks complete before its loss is recorded.
4. The file is longer than its records: the next run or startup truncates it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from ..disk.disk import Disk, LogFile, OsDisk, sync_directory
from ..errors import DataDirectoryError
from ..index.claims import NO_CLAIMS, Claims, opened
from ..log import segment_files
from ..log.format import (
    BODY_BYTES_MAX,
    NO_LEDGER,
    RECORD_HEADER,
    SEGMENT_HEADER,
    BookieLogRecord,
    RecordKind,
    SegmentHeader,
    encode_record,
    encode_segment_header,
    position_of,
)
from ..serving import directory
from .damage import Damaged, LogScan, LostRange

SALVAGED = "salvaged"

LOST_BYTES_MAX = RECORD_HEADER.size + BODY_BYTES_MAX
"""The maximum number of bytes that one LOST record covers."""

COPY_BYTES = 4 * 1024 * 1024
"""Number of damaged bytes copied at a time."""


@dataclass(frozen=True, slots=True)
class Mended:
    """One repair. `bytes_lost`: bytes that LOST records now cover; `copy`: the file that keeps the original bytes."""

    file: str
    offset: int
    what: str
    bytes_lost: int = 0
    copy: str | None = None


@dataclass(frozen=True, slots=True)
class SalvageOutcome:
    """Result of a salvage. `index_problem`: the reason why the index must be rebuilt before the bookie can start; "" if
    there is none."""

    bookie_id: str
    index_problem: str


OnMended = Callable[[Mended], None]


def salvage(
    path: Path, on_mended: OnMended, on_read: Callable[[int], object] = lambda _: None
) -> SalvageOutcome:
    """Replaces the losses of a stopped bookie's log with LOST records; reports each repair when it is on disk.
    `on_read` is called at each read, with the number of log bytes read.

    Raises DataDirectoryError if the path is not a bookie's directory, is in use, or holds files of another bookie; in
    that case nothing was changed. Raises OSError if the disk fails; in that case run it again, on a copy of the
    directory if the disk cannot be read.
    """
    with closing(directory.lock(path)) as locked:
        cookie = directory.read_cookie(path)
        _check_log(path)
        claims, index_problem = _claims(locked.index)
        scan = LogScan(OsDisk(locked.log), cookie.incarnation, claims, on_read)
        try:
            damaged = find(scan)
            _mend_all(path, damaged, cookie.incarnation, claims, on_mended)
        except OSError as error:
            raise _advised(error) from error
        if not scan.checkpoint_fits:
            index_problem = "its checkpoint does not fit the log"
        return SalvageOutcome(cookie.bookie_id, index_problem)


def find(scan: LogScan) -> list[Damaged]:
    """Returns the damaged segments, in order. Raises DataDirectoryError for a file that is not a segment of this log,
    or belongs to another bookie."""
    damaged = sorted((one for one in scan if isinstance(one, Damaged)), key=lambda one: one.segment)
    for one in damaged:
        if one.is_foreign:
            raise DataDirectoryError(
                f"{segment_files.name_of(one.segment)} cannot be used here: {one.header_why}. "
                "Put the right file in its "
                "place, or move it out of the log directory and run this again, so that it is treated as lost"
            )
    return damaged


def mend(disk: Disk, aside: Disk, damaged: Damaged, incarnation: str, claims: Claims) -> list[Mended]:
    """Repairs one segment, after copying its damaged bytes to `aside`. Everything is on disk when this returns."""
    name = segment_files.name_of(damaged.segment)
    with closing(disk.create(name) if damaged.is_missing else disk.open(name)) as file:
        copies = _copy_aside(file, aside, name, damaged)
        done = _report(name, damaged, copies)
        for stretch in reversed(damaged.stretches):
            _fill(file, damaged.segment, stretch, claims.checkpoint_in(damaged.segment))
        if damaged.resize_to is not None:
            file.truncate(damaged.resize_to)
            file.datasync()
        if damaged.header_why:
            # The end of the previous segment is no longer known.
            file.write([encode_segment_header(SegmentHeader(damaged.segment, incarnation))], 0)
            file.datasync()
    disk.sync_directory()
    return done


def _check_log(path: Path) -> None:
    """Raises DataDirectoryError if the log is missing, or if it has no segments although there is an index. A missing
    index is accepted, because it can be rebuilt."""
    if (path / directory.INDEX).is_dir() or not (path / directory.LOG).is_dir():
        directory.check_parts(path)


def _claims(index_path: Path) -> tuple[Claims, str]:
    """Reads the index's claims about the log; if the index cannot be used, returns no claims, and the reason."""
    if not index_path.is_dir():
        return NO_CLAIMS, "it is missing"
    index, claims, why = opened(index_path)
    if index is not None:
        index.close()
    return claims, why


def _mend_all(
    path: Path, damaged: list[Damaged], incarnation: str, claims: Claims, on_mended: OnMended
) -> None:
    if not damaged:
        return
    (path / SALVAGED).mkdir(exist_ok=True)
    sync_directory(path)
    disk, aside = OsDisk(path / directory.LOG), OsDisk(path / SALVAGED)
    for one in damaged:
        for mended in mend(disk, aside, one, incarnation, claims):
            on_mended(mended)


def _advised(error: OSError) -> Exception:
    if error.errno != errno.EIO:
        return error
    return DataDirectoryError(
        f"the disk fails ({error}). Copy the directory to a good disk, with zeros in place of unreadable bytes (as "
        "ddrescue does), and salvage the copy"
    )


# --- copies ------------------------------------------------------------------------------------


def _copy_aside(file: LogFile, aside: Disk, name: str, damaged: Damaged) -> dict[int, str]:
    """Copies bytes before they are overwritten or cut off; returns the copies' names by offset. The copies are durable
    when it returns."""
    ranges = [(stretch.offset, stretch.end) for stretch in damaged.stretches]
    if damaged.header_why:
        ranges.insert(0, (0, SEGMENT_HEADER.size))
    if damaged.resize_to is not None:
        begin = damaged.resize_to if damaged.only_resized_at is not None else ranges.pop()[0]
        ranges.append((begin, file.size()))
    copies = {}
    for start, end in ranges:
        end = _content_end(file, start, min(end, file.size()))
        if end > start:
            copies[start] = _copy(file, aside, f"{name}.{start}", start, end)
    if copies:
        aside.sync_directory()
    return copies


def _content_end(file: LogFile, start: int, end: int) -> int:
    """Returns the offset right after the range's last non-zero byte; `start` if there is none."""
    found = start
    for offset in range(start, end, COPY_BYTES):
        content = file.read(min(COPY_BYTES, end - offset), offset).rstrip(b"\0")
        if content:
            found = offset + len(content)
    return found


def _copy(file: LogFile, aside: Disk, name: str, start: int, end: int) -> str:
    """Copies a range under an unused name, because an earlier copy may be the only complete one."""
    taken = aside.names()
    name = next(free for n in count() if (free := f"{name}.{n}" if n else name) not in taken)
    copy = aside.create(name)
    try:
        for offset in range(start, end, COPY_BYTES):
            copy.write([file.read(min(COPY_BYTES, end - offset), offset)], offset - start)
        copy.datasync()
    except OSError:
        with suppress(OSError):  # the first error is the one to report
            aside.remove(name)  # a partial copy is of no use
        raise
    finally:
        copy.close()
    return name


# --- records -----------------------------------------------------------------------------------


def _fill(file: LogFile, segment: int, stretch: LostRange, checkpoint: int | None) -> None:
    """Covers the range with LOST records, written last to first. If the checkpoint lies within the range, one of the
    records begins at the checkpoint."""
    for start, end in reversed(pieces(stretch, checkpoint)):
        lost = BookieLogRecord(RecordKind.LOST, NO_LEDGER, content=bytes(end - start - RECORD_HEADER.size))
        position = position_of(segment, start)
        file.write(encode_record(lost, position=position, synced=position), start)
        file.datasync()


def pieces(stretch: LostRange, checkpoint: int | None) -> list[tuple[int, int]]:
    """Splits the range into (start, end) pairs, one for each LOST record."""
    parted = checkpoint is not None and stretch.offset < checkpoint < stretch.end
    if checkpoint is None or not parted or not stretch.can_be_parted_at(checkpoint):
        return list(_pieces(stretch.offset, stretch.end))
    return [*_pieces(stretch.offset, checkpoint), *_pieces(checkpoint, stretch.end)]


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        size = min(end - start, LOST_BYTES_MAX)
        if 0 < end - start - size < RECORD_HEADER.size:  # the last record needs room for its header
            size -= RECORD_HEADER.size
        yield start, start + size
        start += size


def _report(name: str, damaged: Damaged, copies: dict[int, str]) -> list[Mended]:
    done = []
    if damaged.header_why:
        done.append(Mended(name, 0, f"its header was rewritten: {damaged.header_why}", copy=copies.get(0)))
    for stretch in damaged.stretches:
        size = stretch.end - stretch.offset
        done.append(Mended(name, stretch.offset, stretch.why, size, copies.get(stretch.offset)))
    end = damaged.only_resized_at
    if end is not None:
        done.append(
            Mended(name, end, "the file was resized to the end of its last record", copy=copies.get(end))
        )
    return done
