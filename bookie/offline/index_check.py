"""Compares the index with the log, for `check`: reads the entire index, changes nothing.

The log contains more than the index points to: records of deleted ledgers, and frames that were moved. If something is
only in the index, either the log lost it or the index is wrong; `bookledger bookie rebuild-index` rebuilds a wrong
index.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..index.frame_locations import Frame, FrameLocation, place_of_frame
from ..index.index import Index
from ..index.local_ledger_state import Fence, LocalLedgerState
from ..log import segment_files
from ..log.format import NO_LEDGER, place_of
from ..log.record_reader import Found
from ..storage.core import remember

Usage = Mapping[tuple[int, int], int]
"""Bytes of frames, by (segment, ledger)."""


@dataclass(frozen=True, slots=True)
class LostEntries:
    """Entries whose location in the log is unreadable: reads get I/O errors until a repair."""

    file: str
    offset: int
    ledger: int
    first_entry: int
    last_entry: int
    entries: int


@dataclass(slots=True)
class Logged:
    """Contents of the entire log, for comparison with the index. Memory use grows with the number of frames.

    `states`: the state of each ledger as of the checkpoint; `ledgers`, `fenced`: the ledgers that have records, or a
    fence, anywhere in the log; `lost`: unreadable bytes by segment; `is_whole`: whether nothing was ever lost or
    dropped.
    """

    checkpoint: int
    states: dict[int, LocalLedgerState] = field(default_factory=dict)
    ledgers: set[int] = field(default_factory=set)
    fenced: set[int] = field(default_factory=set)
    frames: set[Frame] = field(default_factory=set)
    lost: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    is_whole: bool = True

    def add(self, found: Found) -> None:
        """Adds a record. Raises ValueError if its content is invalid."""
        record, ledger_id = found.record, found.record.ledger_id
        if ledger_id == NO_LEDGER:
            return
        said = LocalLedgerState(ledger_id)
        remember(said, record)
        self.ledgers.add(ledger_id)
        if said.fence is Fence.DURABLE:
            self.fenced.add(ledger_id)
        if found.position < self.checkpoint:
            remember(self.states.setdefault(ledger_id, LocalLedgerState(ledger_id)), record)
        place = place_of_frame(record.columns, found.position, found.header.record_bytes)
        if place is not None:
            self.frames.add((ledger_id, place))

    def lose(self, segment: int, start: int, end: int) -> None:
        """Marks bytes [start, end) of a segment as lost."""
        self.lost.setdefault(segment, []).append((start, end))
        self.is_whole = False

    def has_lost(self, place: FrameLocation) -> bool:
        """Returns whether a frame at this place is lost."""
        segment, start = place_of(place.position)
        end = start + place.size
        return any(begin < end and start < stop for begin, stop in self.lost.get(segment, ()))


@dataclass(slots=True)
class Comparison:
    """Result of a comparison: problems of the index, harmless notes, and entries that the log has lost."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lost: list[LostEntries] = field(default_factory=list)


def compare(index: Index, logged: Logged) -> Comparison:
    """Compares the index with the log. Raises IndexUnusable if rows of the index cannot be read."""
    found = Comparison()
    stored = set(index.places())
    counted = {(s, n): held for s in index.usage.totals() for n, held in index.usage.of(s).items()}
    states = {state.ledger_id: state for state in index.states()}
    for ledger_id in sorted(states.keys() | {ledger_id for ledger_id, _ in stored}):
        if not index.is_whole(ledger_id):
            found.problems.append(f"it lacks frames of ledger {ledger_id} that it should hold")
    _compare_frames(stored, logged, found)
    _compare_usage(stored, {at: held.frame_bytes for at, held in counted.items()}, found)
    found.problems += _wrong_states(states, {n for _, n in counted}, logged)
    in_limbo = sum(state.limbo for state in states.values())
    if in_limbo:
        found.notes.append(f"ledgers in limbo: {in_limbo}; run: bookledger bookie repair")
    if index.limbo_is_due:
        found.notes.append("the log had losses: the next start puts every ledger into limbo")
    return found


# --- frames ------------------------------------------------------------------------------------


def _compare_frames(stored: Collection[Frame], logged: Logged, found: Comparison) -> None:
    astray = sorted(frame for frame in stored if frame not in logged.frames)
    lost = [frame for frame in astray if logged.has_lost(frame[1])]
    found.lost += _lost_entries(lost)
    for ledger_id, place in astray:
        if not logged.has_lost(place):
            found.problems.append(f"it points to a frame of ledger {ledger_id} that is not in {_at(place)}")
    left = [f for f in logged.frames if f not in stored and f[1].position < logged.checkpoint]
    if left:
        nowhere = sum(not is_covered for is_covered in _covered(left, stored))
        found.notes.append(
            f"the index does not point to {len(left)} frames of the log: they are garbage or were moved; the entries "
            f"of {nowhere} of them are not stored anywhere else on this bookie"
        )


def _lost_entries(frames: Iterable[Frame]) -> Iterator[LostEntries]:
    by_segment = defaultdict(list)
    for ledger_id, place in frames:
        by_segment[place.position >> 32, ledger_id].append(place)
    for (segment, ledger_id), places in sorted(by_segment.items()):
        for run in _runs(places):
            offset = place_of(min(place.position for place in run))[1]
            last_entry, entries = max(p.last_entry for p in run), sum(p.entries for p in run)
            yield LostEntries(
                segment_files.name_of(segment), offset, ledger_id, run[0].first_entry, last_entry, entries
            )


def _runs(places: Iterable[FrameLocation]) -> Iterator[list[FrameLocation]]:
    """Sorts frames and groups them into runs of entries without gaps."""
    run: list[FrameLocation] = []
    last_entry = -1
    for place in sorted(places):
        if run and place.first_entry > last_entry + 1:
            yield run
            run = []
        run.append(place)
        last_entry = max(last_entry, place.last_entry)
    if run:
        yield run


def _covered(frames: Collection[Frame], stored: Iterable[Frame]) -> Iterator[bool]:
    """Yields, for each frame, whether stored frames of its ledger cover all its entries."""
    others = defaultdict(list)
    wanted = {ledger_id for ledger_id, _ in frames}
    for ledger_id, place in stored:
        if ledger_id in wanted:
            others[ledger_id].append(place)
    spans = {
        n: [(r[0].first_entry, max(p.last_entry for p in r)) for r in _runs(o)] for n, o in others.items()
    }
    for ledger_id, place in frames:
        of_ledger = spans.get(ledger_id, [])
        n = bisect_right(of_ledger, place.first_entry, key=lambda span: span[0])
        yield n > 0 and place.last_entry <= of_ledger[n - 1][1]


def _compare_usage(stored: Iterable[Frame], counted: Usage, found: Comparison) -> None:
    pointed: Counter[tuple[int, int]] = Counter()
    for ledger_id, place in stored:
        pointed[place.position >> 32, ledger_id] += place.size
    for segment, ledger_id in sorted(pointed.keys() | counted.keys()):
        have, count = pointed[segment, ledger_id], counted.get((segment, ledger_id), 0)
        where = f"of ledger {ledger_id} in {segment_files.name_of(segment)}"
        if count < have:  # garbage collection may mistake the segment for an empty one
            found.problems.append(f"it counts {count} bytes {where}, but points to {have}")
        elif count > have:
            found.notes.append(
                f"it counts {count} bytes {where}, but points to {have}: a deletion is unfinished"
            )


# --- states ------------------------------------------------------------------------------------


def _wrong_states(
    states: Mapping[int, LocalLedgerState], in_use: Collection[int], logged: Logged
) -> Iterator[str]:
    for ledger_id in sorted(set(in_use) - states.keys()):
        yield f"it has records of ledger {ledger_id}, but no state"
    for ledger_id, state in sorted(states.items()):
        if ledger_id in logged.states:
            for what in _less_than(logged.states[ledger_id], state):
                yield f"it lacks {what} of ledger {ledger_id}, which is in the log"
        if not logged.is_whole:
            continue
        if ledger_id not in logged.ledgers:
            yield f"it has a state of ledger {ledger_id}, but the log has no records of it"
        elif state.fence is Fence.DURABLE and ledger_id not in logged.fenced:
            yield f"it has a fence of ledger {ledger_id}, but the log has none"
        elif ledger_id in logged.states and _has_other_lac(logged.states[ledger_id], state):
            yield f"its last-add-confirmed of ledger {ledger_id} differs from the log's"


def _less_than(logged: LocalLedgerState, state: LocalLedgerState) -> Iterator[str]:
    if logged.fence is Fence.DURABLE and state.fence is not Fence.DURABLE:
        yield "the fence"
    if logged.limbo and not state.limbo:
        yield "the limbo"
    if logged.known and not state.known:
        yield "the mark of stored entries"
    said, held = logged.last_add_confirmed, state.last_add_confirmed
    if said is not None and (held is None or held.last_entry < said.last_entry):
        yield "the last-add-confirmed"


def _has_other_lac(logged: LocalLedgerState, state: LocalLedgerState) -> bool:
    """Returns whether the last-add-confirmed in the index differs from the logged one, but is not lower: a lower one
    has already been reported."""
    said, held = logged.last_add_confirmed, state.last_add_confirmed
    return held is not None and held != said and (said is None or held.last_entry >= said.last_entry)


def _at(place: FrameLocation) -> str:
    segment, offset = place_of(place.position)
    return f"{segment_files.name_of(segment)} at offset {offset}"
