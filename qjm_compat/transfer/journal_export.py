"""Exports a journal as a directory of segment files, in a NameNode's format.

Each file is written under a temporary name, synced, and renamed; then the directory is synced. So a crash leaves
complete files and at most one file with the suffix .tmp, which the next export rewrites.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..aio import QuorumJournalManager
from ..edits import TERMINATOR, encode_header
from ..manager.input_stream import EditLogInputStream
from ..manager.segments_seen import check_no_gap
from .errors import TransferRefused
from .files.names import PREFIX, SegmentName, finalized_name, in_progress_name, parsed
from .files.segment_file import PADDING

OnBytes = Callable[[int], None]

SEEN_TXID = "seen_txid"
"""The name of a file that contains a txid. A NameNode refuses to start without edits up to that txid."""

COMPARED_BYTES = 1024 * 1024
"""The number of bytes read at a time to compare two files."""

TEMPORARY = ".tmp"


@dataclass(slots=True)
class Exported:
    """The result of an export, including the number of segments that already existed. `last_txid` is the last txid in
    the directory."""

    segments: int = 0
    ops: int = 0
    bytes: int = 0
    segments_there: int = 0
    last_txid: int | None = None


async def export_directory(
    journal: QuorumJournalManager,
    folder: Path,
    *,
    from_txid: int | None = None,
    in_progress: bool = False,
    allow_gaps: bool = False,
    on_bytes: OnBytes = lambda _: None,
) -> Exported:
    """Writes each segment that contains `from_txid` or later edits as a file, and raises the directory's seen_txid.

    Writes a segment in progress only on request, up to its last durable edit; a later export continues it. Raises
    TransferRefused rather than overwrite or contradict existing files, and also if `from_txid` was purged or is higher
    than the next transaction. Raises OSError and JournalError, the latter also if transactions in between are missing
    and `allow_gaps` is not set.
    """
    folder.mkdir(exist_ok=True)
    streams = await journal.select_input_streams(0, in_progress_ok=in_progress, gaps_ok=True)
    if from_txid is not None:
        _check_start(streams, from_txid)
    wanted = [stream for stream in streams if from_txid is None or stream.last_txid >= from_txid]
    if not allow_gaps:
        check_no_gap(wanted)
    for stream in wanted:
        _check_room(folder, stream)
    _seen_txid(folder)  # reports a damaged file before anything is written
    done = Exported()
    for stream in wanted:
        await _export(stream, folder, on_bytes, done)
    if wanted:
        _raise_seen_txid(folder, wanted[-1].first_txid)
    return done


def _check_start(streams: Sequence[EditLogInputStream], from_txid: int) -> None:
    """Raises TransferRefused if `from_txid` is missing, so that the caller does not mistake missing edits for edits
    that do not exist yet."""
    if not streams:
        raise TransferRefused(f"txid {from_txid} was requested, but the journal has no edits to export")
    oldest, last = streams[0].first_txid, streams[-1].last_txid
    if from_txid < oldest:
        raise TransferRefused(
            f"txids {from_txid} to {oldest - 1} are not there: the oldest is {oldest}, earlier ones were purged"
        )
    if from_txid > last + 1:
        raise TransferRefused(f"the edits to export end at txid {last}, but {from_txid} was requested")


async def _export(stream: EditLogInputStream, folder: Path, on_bytes: OnBytes, done: Exported) -> None:
    path = folder / _name(stream)
    temporary = folder / (path.name + TEMPORARY)
    try:
        await _write(stream, temporary, on_bytes)
        if _put(temporary, path, is_final=not stream.is_in_progress):
            done.segments += 1
            done.ops += stream.last_txid - stream.first_txid + 1
            done.bytes += path.stat().st_size
        else:
            done.segments_there += 1
    finally:
        temporary.unlink(missing_ok=True)
    _drop_replaced(folder, stream)
    sync_directory(folder)
    done.last_txid = stream.last_txid


async def _write(stream: EditLogInputStream, path: Path, on_bytes: OnBytes) -> None:
    with _new_file(path) as file:
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                if file.tell() == 0:  # the layout is known once the first batch has been read
                    file.write(encode_header(stream.layout_version))
                file.write(batch.records)
                on_bytes(len(batch.records))
        file.flush()
        os.fdatasync(file.fileno())


def _put(temporary: Path, path: Path, *, is_final: bool) -> bool:
    """Renames the temporary file to its final name. Returns False if a finalized file with that name and the same edits
    exists. Raises TransferRefused if the existing file has other edits."""
    _refuse_link(path)
    if not path.exists():
        temporary.rename(path)
        return True
    if is_final:
        if not (_begins_with(path, temporary) and _begins_with(temporary, path)):
            raise TransferRefused(f"{path} already exists, with edits that differ from the journal's")
        return False
    if not _begins_with(temporary, path):
        raise TransferRefused(f"{path} already exists, with edits that the journal does not have")
    temporary.rename(path)
    return True


def _check_room(folder: Path, stream: EditLogInputStream) -> None:
    """Checks that no other file claims these txids, because a NameNode would accept either file. The file of an earlier
    export of the same segment, made while the segment was in progress, is allowed."""
    for path in folder.iterdir():
        other = parsed(path.name) if path.name.startswith(PREFIX) else None
        if other is not None and not path.is_file():
            raise TransferRefused(f"{path} is not a regular file")
        if other is None or other.file == _name(stream) or not _overlaps(other, stream):
            continue
        if other.last_txid is not None or other.first_txid != stream.first_txid:
            raise TransferRefused(f"{path} has some of the txids {stream.first_txid} to {stream.last_txid}")


def _overlaps(other: SegmentName, stream: EditLogInputStream) -> bool:
    last = other.last_txid if other.last_txid is not None else other.first_txid
    return other.first_txid <= stream.last_txid and stream.first_txid <= last


def _drop_replaced(folder: Path, stream: EditLogInputStream) -> None:
    """Deletes the file of a segment that was exported while in progress and has been finalized since, so that the
    segment has only one file."""
    earlier = folder / in_progress_name(stream.first_txid)
    if stream.is_in_progress or not earlier.exists():
        return
    if not _begins_with(folder / _name(stream), earlier):
        raise TransferRefused(f"{earlier} contains edits that the journal does not have")
    earlier.unlink()


def _begins_with(longer: Path, shorter: Path) -> bool:
    """Returns whether the shorter file is a prefix of the longer one. Padding at the end of the shorter file is
    ignored."""
    with longer.open("rb") as one, shorter.open("rb") as other:
        while piece := other.read(COMPARED_BYTES):
            there = one.read(len(piece))
            if piece != there:
                same = next(
                    (n for n, (a, b) in enumerate(zip(piece, there, strict=False)) if a != b), len(there)
                )
                rest = piece[same:]
                return rest[0] == TERMINATOR and not rest.strip(PADDING) and _is_padding(other)
    return True


def _is_padding(rest: BinaryIO) -> bool:
    return all(not piece.strip(PADDING) for piece in iter(lambda: rest.read(COMPARED_BYTES), b""))


def _name(stream: EditLogInputStream) -> str:
    if stream.is_in_progress:
        return in_progress_name(stream.first_txid)
    return finalized_name(stream.first_txid, stream.last_txid)


def _raise_seen_txid(folder: Path, txid: int) -> None:
    """Writes a segment's first txid to seen_txid, as a NameNode does when it begins the segment. The number in the file
    never decreases."""
    if _seen_txid(folder) >= txid:
        return
    temporary = folder / (SEEN_TXID + TEMPORARY)
    with _new_file(temporary) as file:
        file.write(b"%d\n" % txid)
        file.flush()
        os.fdatasync(file.fileno())
    temporary.rename(folder / SEEN_TXID)
    sync_directory(folder)


def _seen_txid(folder: Path) -> int:
    """Returns the txid in the directory's seen_txid, or 0 if there is no such file. Raises TransferRefused if the file
    contains anything else."""
    path = folder / SEEN_TXID
    _refuse_link(path)
    if not path.exists():
        return 0
    if not path.is_file():
        raise TransferRefused(f"{path} is not a regular file")
    try:
        return int(path.read_text())
    except ValueError as error:
        raise TransferRefused(
            f"{path} does not contain a txid: {error}; remove it, and the export will rewrite it"
        ) from error


def _new_file(path: Path) -> BinaryIO:
    """Creates a new file with this name, replacing anything that a crash or a user has left there."""
    path.unlink(missing_ok=True)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb")


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise TransferRefused(f"{path} is a symbolic link, which an export does not follow: remove it")


def sync_directory(folder: Path) -> None:
    """Makes the file names in a directory durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
