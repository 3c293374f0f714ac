"""Looking at a bookie from outside, at one instant: what it would answer, and what its log alone would.

R6      an entry that it owes is given; called damaged, or the ledger in limbo, only where a copy of it was damaged
P4      no entry has other bytes than its own, or was never sent
R1      a fence that was answered is there
limbo   a ledger in limbo stays there until it is repaired, and leaves it then
usage   what the index says of each segment is what its places come to
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from bookie.errors import BookieError
from bookie.index.index import Index
from bookie.index.local_ledger_state import Fence, LocalLedgerState
from bookie.log.format import RecordKind
from bookie.storage.page_reader import read_page
from bookie.storage.stored_frames import SegmentFiles
from bookie.wire.columnar_entries import Columns
from bookie.wire.messages import EntryRange
from tests.bookie.simulated_disk import SimulatedDisk
from tests.simulation.engine.world import Violation

from .ledgers import Ledger
from .probes import UpkeepProbe
from .rest import fill, salvaged
from .shelf import SHELF
from .site import Site

LAST = 2**62
PAGE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class View:
    """Something that answers for ledgers. `all_limbo`: whatever the metadata places here is about to be in limbo."""

    name: str
    index: Index
    files: SegmentFiles
    state_of: Callable[[int], LocalLedgerState]
    all_limbo: bool = False


def look(site: Site, view: View) -> None:
    """At everything. Raises Violation."""
    site.ledgers.look()
    for ledger in site.ledgers:
        look_at(site, view, ledger)
    _look_at_usage(site, view)


def look_at(site: Site, view: View, ledger: Ledger) -> None:
    """At one ledger. Raises Violation."""
    if not ledger.is_deleted:
        state = view.state_of(ledger.ledger_id)
        _look_at_entries(site, view, ledger, state)
        _look_at_state(view, ledger, state)


def look_at_log_alone(site: Site) -> None:
    """As if the index were lost now, and made anew from the log."""
    copy, index = site.machine.copy_of_disk(), SHELF.take()
    try:
        index = _filled(site, copy, index)
        view = View("the log alone", index, SegmentFiles(copy), _states(index), index.limbo_is_due)
        look(site, view)
    finally:
        SHELF.give_back(index)


def note_fences_without_record(site: Site) -> None:
    """The index is about to be lost."""
    recorded = {record.ledger_id for _, record in site.durable if record.kind is RecordKind.FENCE}
    if any(one.is_fenced and one.ledger_id not in recorded for one in site.ledgers):
        site.reached(UpkeepProbe.STATE_NEEDED)


def _filled(site: Site, copy: SimulatedDisk, index: Index) -> Index:
    """The index made anew; another one where the log had to be salvaged first."""
    try:
        fill(copy, index)
    except BookieError as error:
        if not site.is_damaged:
            raise Violation("B2", f"the log is called damaged, and nothing is: {error}") from error
        SHELF.give_back(index)
        index = SHELF.take()
        salvaged(copy, SimulatedDisk(copy.random), index)
        fill(copy, index)
    return index


def _states(index: Index) -> Callable[[int], LocalLedgerState]:
    return lambda ledger_id: index.ledger(ledger_id) or LocalLedgerState(ledger_id)


# --- entries ------------------------------------------------------------------------------------


def _look_at_entries(site: Site, view: View, ledger: Ledger, state: LocalLedgerState) -> None:
    index, ledger_id = view.index, ledger.ledger_id
    recent = index.recent_holding(ledger_id, 0, LAST)
    places, through = index.page(ledger_id, 0, LAST, recent, PAGE_BYTES)
    page = read_page(view.files, places, ledger_id, 0, through, PAGE_BYTES)
    assert page.covered_through == LAST
    is_in_limbo = state.limbo or (view.all_limbo and ledger.is_listed)
    judge(site, view.name, ledger, page.columns, page.damaged, ledger.owed, is_in_limbo=is_in_limbo)


def judge(
    site: Site,
    who: str,
    ledger: Ledger,
    columns: Columns,
    damaged: tuple[EntryRange, ...],
    owed: set[int],
    *,
    is_in_limbo: bool,
) -> None:
    """What was given of these entries, and called damaged. `is_in_limbo`: whatever is absent is called damaged."""
    given = check_bytes(site, who, ledger, columns)
    missing = owed - given - ledger.hidden
    for one in damaged:
        if not (is_in_limbo or ledger.may_be_damaged(one.first_entry, one.last_entry)):
            raise Violation("B2", f"{who}: {one} of ledger {ledger.ledger_id} is called damaged, and is not")
    for entry_id in sorted(missing):
        is_damaged = is_in_limbo or any(one.first_entry <= entry_id <= one.last_entry for one in damaged)
        what = f"{who}: entry {entry_id} of ledger {ledger.ledger_id}"
        if entry_id not in ledger.excused:
            raise Violation(
                "R6", f"{what} is {'called damaged' if is_damaged else 'denied'}, and was never damaged"
            )
        if not is_damaged and ledger.is_listed and ledger.places_here(entry_id):
            raise Violation("R6", f"{what} is denied; a copy of it was damaged")
        if not is_damaged:
            ledger.held.discard(entry_id)  # nobody is to find it here


def check_bytes(site: Site, who: str, ledger: Ledger, columns: Columns) -> set[int]:
    """The ids of these entries, each with its own bytes, and each one that may be here."""
    over = ledger.record.closed_part()  # up to its end the other replicas may have given it
    last = over.last_entry if over is not None else None
    given = set()
    for entry_id, payload, digest in columns.rows():
        own = site.ledgers.entry(ledger.ledger_id, entry_id, site.plan.sizes.payload)
        if (bytes(payload), bytes(digest)) != own[1:]:
            raise Violation("P4", f"{who}: entry {entry_id} of ledger {ledger.ledger_id} has other bytes")
        if entry_id not in ledger.sent and (last is None or entry_id > last):
            raise Violation("P4", f"{who}: nobody sent entry {entry_id} of ledger {ledger.ledger_id}")
        given.add(entry_id)
    return given


# --- states -------------------------------------------------------------------------------------


def _look_at_state(view: View, ledger: Ledger, state: LocalLedgerState) -> None:
    is_closed, ledger_id = ledger.record.is_closed, ledger.ledger_id
    about_to = view.all_limbo and ledger.is_listed
    is_excused = ledger.state_excused and (
        is_closed or about_to or not (ledger.is_listed and ledger.is_named)
    )
    if ledger.is_fenced and state.fence is not Fence.DURABLE and not is_excused:
        raise Violation("R1", f"{view.name}: the fence of ledger {ledger_id} is gone")
    if state.fence is Fence.DURABLE and not ledger.may_be_fenced:
        raise Violation("R1", f"{view.name}: ledger {ledger_id} is fenced, and nobody did that")
    if ledger.in_limbo is True and not (state.limbo or about_to or ledger.state_excused):
        raise Violation("limbo", f"{view.name}: ledger {ledger_id} has left limbo, and was not repaired")
    if ledger.in_limbo is False and state.limbo and not ledger.state_excused:
        raise Violation("limbo", f"{view.name}: ledger {ledger_id} is in limbo, and nobody put it there")
    lac = state.last_add_confirmed
    may_be_behind = is_closed or ledger.state_excused or ledger.damaged or state.limbo or about_to
    if (lac.last_entry if lac else -1) < ledger.lac and not may_be_behind:
        raise Violation("LAC", f"{view.name}: ledger {ledger_id} knows {lac}, and had {ledger.lac}")


# --- usage --------------------------------------------------------------------------------------


def _look_at_usage(site: Site, view: View) -> None:
    """Of ledgers that are not deleted: one that is forgotten while frames come in counts from zero again."""
    alive = {one.ledger_id for one in site.ledgers if not one.is_deleted}
    held: Counter[tuple[int, int]] = Counter()
    for ledger_id, place in view.index.places():
        held[place.position >> 32, ledger_id] += place.size
    said = {
        (segment, ledger_id): usage.frame_bytes
        for segment in view.index.usage.totals()
        for ledger_id, usage in view.index.usage.of(segment).items()
    }
    for at in sorted(held.keys() | said.keys()):
        if at[1] in alive and held[at] != said.get(at, 0):
            raise Violation(
                "usage", f"{view.name}: (segment, ledger) {at} holds {held[at]}, not {said.get(at, 0)}"
            )
