"""Is a stopped bookie's directory whole? Reads everything, changes nothing, says what is wrong and where.

Looked at: the cookie, every segment with every record's checksum, the numbering of the segments, and the index
against the log: its checkpoint, each frame it points to, each frame it must point to, each ledger's fence
and last-add-confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import directory
from .core import remember
from .disk import Disk, OsDisk
from .errors import DamagedLog, IndexUnusable
from .index import Index, Place, place_of_frame
from .ledger_state import LedgerState
from .log import segments
from .log.format import SEGMENT_HEADER, place_of
from .log.replay import Found, position_end
from .log.walk import Gap, Unreadable, walk


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps the bookie from starting, or from giving what it once acknowledged."""

    file: str
    offset: int
    what: str


@dataclass(slots=True)
class Findings:
    """What a check has seen. `notes` are harmless: the bookie deals with them when it starts."""

    segments: int = 0
    records: int = 0
    entries: int = 0
    ledgers: int = 0
    log_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


def check(path: Path) -> Findings:
    """Checks the directory of a bookie that does not run. Raises DataDirectoryError where it is none, or in use."""
    locked = directory.lock(path)
    try:
        cookie = directory.read_cookie(path)
        directory.check_parts(path)
        findings = Findings()
        known = _Known()
        _check_log(OsDisk(locked.log), cookie.incarnation, findings, known)
        _check_index(locked.index, findings, known)
        findings.ledgers = len(known.states)
        return findings
    finally:
        locked.close()


@dataclass(slots=True)
class _Known:
    """What the whole log says, to hold the index against. Bounded by the number of frames."""

    states: dict[int, LedgerState] = field(default_factory=dict)
    places: set[tuple[int, Place]] = field(default_factory=set)
    end: int = 0

    def add(self, found: Found) -> None:
        record, ledger_id = found.record, found.record.ledger_id
        remember(self.states.setdefault(ledger_id, LedgerState(ledger_id)), record)
        place = place_of_frame(record.columns, found.position, found.header.record_bytes)
        if place is not None:
            self.places.add((ledger_id, place))
        self.end = position_end(found)


def _check_log(disk: Disk, incarnation: str, findings: Findings, known: _Known) -> None:
    numbers = segments.numbers(disk)
    for number, expected in zip(numbers, range(numbers[0], numbers[0] + len(numbers)), strict=True):
        if number != expected:
            gone = segments.name_of(expected)
            findings.problems.append(Problem(gone, 0, "this segment is missing, yet later ones exist"))
            break
    for number in numbers:
        findings.segments += 1
        newest = number == numbers[-1]
        end = _check_segment(disk, number, incarnation, findings, known, newest=newest)
        if not newest:
            _check_end(disk, number, end, findings)


def _check_segment(
    disk: Disk, number: int, incarnation: str, findings: Findings, known: _Known, *, newest: bool
) -> int:
    """Returns where the segment's last record ends."""
    end = SEGMENT_HEADER.size
    for found in walk(disk, number, incarnation):
        if isinstance(found, Unreadable):
            _note_gap(found, findings, newest=newest)
            continue
        findings.records += 1
        findings.entries += len(found.record.columns or ())
        findings.log_bytes += found.header.record_bytes
        known.add(found)
        end = place_of(position_end(found))[1]
    return end


def _check_end(disk: Disk, number: int, end: int, findings: Findings) -> None:
    following = segments.header_of(disk, number + 1)
    if following is None:
        return  # a problem of its own
    try:
        segments.check_end(number, end, following)
    except DamagedLog as cut:
        findings.problems.append(Problem(cut.file, cut.offset, cut.why))


def _note_gap(gap: Unreadable, findings: Findings, *, newest: bool) -> None:
    problem = Problem(segments.name_of(gap.segment), gap.offset, f"{gap.what.value} ({gap.why})")
    if newest and gap.what in (Gap.TORN, Gap.SPACE):
        if gap.what is Gap.TORN:
            findings.notes.append(problem)
    else:
        findings.problems.append(problem)


def _check_index(path: Path, findings: Findings, known: _Known) -> None:
    try:
        index = Index(path)
    except IndexUnusable as error:
        findings.problems.append(Problem("index", 0, str(error)))
        return
    try:
        for what in _index_problems(index, known):
            findings.problems.append(Problem("index", 0, f"{what}; run: bookledger bookie rebuild-index"))
    finally:
        index.close()


def _index_problems(index: Index, known: _Known) -> Iterator[str]:
    checkpoint = index.checkpoint_position
    if checkpoint > known.end:
        segment, offset = place_of(checkpoint)
        yield f"its checkpoint, segment {segment} offset {offset}, lies behind the log's end"
    stored = set(index.places())
    for ledger_id, place in stored - known.places:
        yield f"it points to a frame of ledger {ledger_id} at {place.position} that the log does not hold"
    for ledger_id, place in known.places - stored:
        if place.position < checkpoint:
            yield f"it lacks the frame of ledger {ledger_id} at {place.position}"
    for ledger_id in index.ledger_ids():
        if ledger_id not in known.states:
            yield f"it has a state of ledger {ledger_id}, of which the log holds nothing"
