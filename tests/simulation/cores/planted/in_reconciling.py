"""Broken rules of notes, and of records that are made again from them (W8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bookie.wire import NO_NOTE
from ledgers.bookies.lane_notes import LaneNotes
from ledgers.protocol import append_pipeline
from ledgers.protocol.ledger_recovery import Recovery
from metadata.records.ledger_record import Fragment, LedgerRecord
from metadata.records.notes import fragment_note, record_reconstruction
from metadata.records.notes.record_reconstruction import NotedBy
from tests.simulation.cores.site.metadata import SimulatedMetadata
from tests.simulation.cores.site.servers import SimulatedBookie
from tests.simulation.engine.planted import Real, around, bug, instead_of

Patch = pytest.MonkeyPatch


@around(LaneNotes, "now")
def tells_of_the_first_fragment_only(now: Real, self: LaneNotes) -> Any:
    """W8: after an ensemble change no note goes down the lanes."""
    return now(self) if self._seen is None else self._note


@instead_of(LaneNotes, "now", within=400, known=31)
def tells_nothing(_: LaneNotes) -> Any:
    """W8: bookies do not know what they belong to."""
    return NO_NOTE


@instead_of(record_reconstruction, "_newest", within=1000, known=67)
def takes_the_oldest_note_of_a_fragment(noted: Sequence[NotedBy]) -> Fragment:
    """W8: of two changes that begin at one entry the later one stands."""
    return min((one.note.fragment for one in noted), key=lambda fragment: fragment.number)


@instead_of(record_reconstruction, "_with_doubt", within=1500, known=175)
def takes_what_copies_lack_from_nowhere(record: Any, *_: Any) -> Any:
    """W6: a record that is made again says of no copy that it may lack entries."""
    return record


@instead_of(append_pipeline, "is_as_left", within=5000, known=823)
def closes_by_an_older_record(found: Any, mine: Any) -> Any:
    """W4: a writer that meets another last fragment than its own closes the ledger with that."""
    return True


@instead_of(SimulatedMetadata, "accept", within=200, known=7)
def accepts_without_reconciling(self: SimulatedMetadata, noted: object) -> None:
    """W8: the metadata that went back is accepted as it is."""
    del noted
    self.is_held = False


@bug(within=400, known=31)
def closes_through_a_hold(patch: Patch) -> None:
    """W8: a recovery is refused by nothing while the metadata that went back is not accepted."""
    never = property(lambda _: False, lambda *_: None)
    patch.setattr(SimulatedMetadata, "is_held", never, raising=False)


@around(Recovery, "end_notes")
def tells_the_last_fragment_only(end_notes: Real, self: Recovery, closed: LedgerRecord) -> Any:
    """R5, W8: who was put in by a recovery hears of no end."""
    last = fragment_note.encode_of(closed, closed.fragments[-1])
    return (one for one in end_notes(self, closed) if one[1] == last and one[0] in self.fencing.fenced)


@instead_of(SimulatedBookie, "_is_ahead")
def takes_a_fragment_that_does_not_stand(self: SimulatedBookie, told: Any) -> Any:
    """W8"""
    return False


@instead_of(SimulatedBookie, "_admitted")
def does_not_wait_for_what_is_admitted(_: SimulatedBookie) -> Any:
    """W8: a bookie tells the notes that it has on disk, and not those of frames that it acknowledges next."""
    return []
