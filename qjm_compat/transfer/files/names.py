"""Names of the segment files in a `current/` directory, as used by NameNodes and JournalNodes.

    edits_<first>-<last>         finalized; both txids with 19 digits
    edits_inprogress_<first>     being written, or left by a writer that died

A file that was moved aside keeps its name, with a suffix: .empty, .corrupt, .trash, .stale, .tmp, .epoch=<n>.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import TransferRefused

PREFIX = "edits_"

_FINALIZED = re.compile(r"edits_(\d+)-(\d+)")
_IN_PROGRESS = re.compile(r"edits_inprogress_(\d+)")


@dataclass(frozen=True, slots=True)
class SegmentName:
    """The segment that a file's name denotes. `last_txid` is None while the segment is in progress."""

    file: str
    first_txid: int
    last_txid: int | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that looks like an edits file, and the reason that it contains none of the journal's edits."""

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """The segments of a directory in order, without overlaps, and the omitted files."""

    segments: tuple[SegmentName, ...]
    left_out: tuple[LeftOut, ...]


def finalized_name(first_txid: int, last_txid: int) -> str:
    return f"edits_{first_txid:019d}-{last_txid:019d}"


def in_progress_name(first_txid: int) -> str:
    return f"edits_inprogress_{first_txid:019d}"


def parsed(file: str) -> SegmentName | None:
    """Parses a file name into a segment; returns None for any other file. Raises TransferRefused for an impossible
    name."""
    if found := _IN_PROGRESS.fullmatch(file):
        return SegmentName(file, int(found[1]), None)
    if not (found := _FINALIZED.fullmatch(file)):
        return None
    first, last = int(found[1]), int(found[2])
    if not 0 < first <= last:
        raise TransferRefused(f"{file}: no segment can extend from txid {first} to {last}")
    return SegmentName(file, first, last)


def listing(files: Iterable[str]) -> DirectoryListing:
    """Classifies a directory's files. Raises TransferRefused if two finalized segments overlap, because it is unknown
    which one is correct."""
    edits = sorted(file for file in files if file.startswith(PREFIX))
    found = {file: parsed(file) for file in edits}
    segments = sorted((s for s in found.values() if s is not None), key=_final_first)
    left = [LeftOut(file, "moved aside") for file, segment in found.items() if segment is None]
    kept: list[SegmentName] = []
    end = 0
    for segment in segments:
        if segment.first_txid > end:
            kept.append(segment)
        elif segment.last_txid is not None:
            raise TransferRefused(f"{kept[-1].file} and {segment.file} overlap")
        else:
            left.append(LeftOut(segment.file, f"{kept[-1].file} has its edits"))
        end = max(end, segment.last_txid or 0)
    return DirectoryListing(tuple(kept), tuple(left))


def _final_first(segment: SegmentName) -> tuple[int, bool]:
    return segment.first_txid, segment.last_txid is None
