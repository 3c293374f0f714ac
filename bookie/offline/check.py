"""Verifies a stopped bookie's directory (fsck): reads everything, changes nothing, reports each problem with its
location.

It checks the cookie; every segment, including the checksum of every record; that no segment is missing (`damage.py`);
and the index against the log (`index_check.py`): the checkpoint, each frame that the index points to, its counts for
each segment, and each ledger's fence, limbo and last-add-confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ..disk.disk import OsDisk
from ..errors import IndexUnusable
from ..index.claims import Claims, opened
from ..index.index import Index
from ..log import segment_files
from ..log.format import SEGMENT_HEADER, RecordKind, place_of
from ..log.record_reader import Found, position_end
from ..log.segment_walk import GapKind, UnreadableRecord
from ..serving import directory
from .damage import Damaged, LogScan
from .index_check import Logged, LostEntries, compare


@dataclass(frozen=True, slots=True)
class CheckProblem:
    """A problem that prevents the bookie from starting, or from serving entries that it acknowledged."""

    file: str
    offset: int
    what: str


@dataclass(slots=True)
class CheckResult:
    """Results of a check. `notes` are harmless findings, which the bookie handles when it starts, or has already
    recorded.

    `lost`: entries that the bookie acknowledged and that cannot be read until `bookledger bookie repair` has fetched
    them.
    """

    segments: int = 0
    records: int = 0
    entries: int = 0
    ledgers: int = 0
    log_bytes: int = 0
    problems: list[CheckProblem] = field(default_factory=list)
    notes: list[CheckProblem] = field(default_factory=list)
    lost: list[LostEntries] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not (self.problems or self.lost)


def check(path: Path, on_read: Callable[[int], object] = lambda _: None) -> CheckResult:
    """Checks a stopped bookie's directory. `on_read` is called at each read, with the number of log bytes read.

    Raises DataDirectoryError if the path is not a bookie's directory, or the directory is in use.
    """
    with closing(directory.lock(path)) as locked:
        cookie = directory.read_cookie(path)
        directory.check_parts(path)
        findings = CheckResult()
        index, claims, why = opened(locked.index)
        if why:
            findings.problems.append(CheckProblem("index", 0, why))
        try:
            scan = LogScan(OsDisk(locked.log), cookie.incarnation, claims, on_read)
            logged = _read_log(scan, claims, findings)
            if index is not None:
                _check_index(index, scan, logged, findings)
        finally:
            if index is not None:
                index.close()
        return findings


# --- the log -----------------------------------------------------------------------------------


def _read_log(scan: LogScan, claims: Claims, findings: CheckResult) -> Logged:
    logged = Logged(claims.checkpoint)
    filled: list[tuple[int, int]] = []
    for one in scan:
        match one:
            case Found(record=record) if record.kind is RecordKind.LOST:
                _join(filled, one)
                findings.records += 1
            case Found():
                _count(one, findings)
                _add(one, logged, findings)
            case UnreadableRecord():
                _note_gap(one, findings)
            case Damaged():
                _note_damage(one, logged, findings)
    findings.segments = len(scan.there)
    findings.ledgers = len(logged.ledgers)
    _note_filled(filled, logged, findings)
    if scan.manifest is not None:
        logged.is_whole = False
        for number in filter(scan.was_dropped, scan.there):
            what = "dropped but not deleted, because of a crash"
            findings.notes.append(CheckProblem(segment_files.name_of(number), 0, what))
    return logged


def _count(found: Found, findings: CheckResult) -> None:
    findings.records += 1
    findings.entries += len(found.record.columns or ())
    findings.log_bytes += found.header.record_bytes


def _add(found: Found, logged: Logged, findings: CheckResult) -> None:
    try:
        logged.add(found)
    except ValueError as error:
        segment, offset = place_of(found.position)
        findings.problems.append(CheckProblem(segment_files.name_of(segment), offset, str(error)))


def _note_gap(gap: UnreadableRecord, findings: CheckResult) -> None:
    if gap.what is not GapKind.SPACE:
        what = f"{gap.what.value} ({gap.why})"
        findings.notes.append(CheckProblem(segment_files.name_of(gap.segment), gap.offset, what))


def _note_damage(damaged: Damaged, logged: Logged, findings: CheckResult) -> None:
    name, remedy = segment_files.name_of(damaged.segment), "; run: bookledger bookie salvage"

    def problem(offset: int, what: str) -> None:
        findings.problems.append(CheckProblem(name, offset, what + remedy))

    for stretch in damaged.stretches:
        logged.lose(damaged.segment, stretch.offset, stretch.end)
    if damaged.is_foreign:
        findings.problems.append(CheckProblem(name, 0, damaged.header_why))
        logged.lose(damaged.segment, SEGMENT_HEADER.size, 1 << 32)
    elif damaged.header_why:
        problem(0, damaged.header_why)
    if not damaged.is_missing:
        for stretch in damaged.stretches:
            problem(stretch.offset, stretch.why)
    if damaged.only_resized_at is not None:
        problem(damaged.only_resized_at, "the file does not end with its last record")


def _join(filled: list[tuple[int, int]], found: Found) -> None:
    """Adds the range of a LOST record. Merges it with the preceding one if they are adjacent, because a long lost range
    needs several records."""
    start, end = found.position, position_end(found)
    if filled and filled[-1][1] == start:
        start = filled.pop()[0]
    filled.append((start, end))


def _note_filled(filled: Sequence[tuple[int, int]], logged: Logged, findings: CheckResult) -> None:
    for start, end in filled:
        segment, offset = place_of(start)
        logged.lose(segment, offset, offset + end - start)
        what = f"{end - start} bytes were lost here, and replaced by LOST records"
        findings.notes.append(CheckProblem(segment_files.name_of(segment), offset, what))


# --- the index ---------------------------------------------------------------------------------


def _check_index(index: Index, scan: LogScan, logged: Logged, findings: CheckResult) -> None:
    def problem(what: str) -> None:
        findings.problems.append(CheckProblem("index", 0, f"{what}; run: bookledger bookie rebuild-index"))

    if not scan.checkpoint_fits:
        segment, offset = place_of(logged.checkpoint)
        problem(f"its checkpoint, {segment_files.name_of(segment)} at offset {offset}, does not fit the log")
    try:
        compared = compare(index, logged)
    except IndexUnusable as error:
        findings.problems.append(CheckProblem("index", 0, str(error)))
        return
    for what in compared.problems:
        problem(what)
    findings.notes += [CheckProblem("index", 0, what) for what in compared.notes]
    findings.lost += compared.lost
