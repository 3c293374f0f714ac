"""Broken rules of notes, and of records that are made again from them (W8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from bookie.wire import NO_NOTE
from ledgers.bookies.lane_notes import LaneNotes
from ledgers.protocol import append
from ledgers.protocol.recovery import Recovery
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord
from metadata.records.notes import fragment_note, reconciling
from metadata.records.notes.reconciling import NotedBy
from tests.simulation.cores.site.metadata import SimulatedMetadata
from tests.simulation.cores.site.servers import SimulatedBookie

Patch = pytest.MonkeyPatch


def tells_of_the_first_fragment_only(patch: Patch) -> None:
    """W8: after an ensemble change no note goes down the lanes."""
    now = LaneNotes.now

    def broken(self: LaneNotes) -> bytes:
        return now(self) if self._seen is None else self._note

    patch.setattr(LaneNotes, "now", broken)


def tells_nothing(patch: Patch) -> None:
    """W8: bookies do not know what they belong to."""
    patch.setattr(LaneNotes, "now", lambda _: NO_NOTE)


def takes_the_oldest_note_of_a_fragment(patch: Patch) -> None:
    """W8: of two changes that begin at one entry the later one stands."""

    def broken(noted: Sequence[NotedBy]) -> Fragment:
        return min((one.note.fragment for one in noted), key=lambda fragment: fragment.number)

    patch.setattr(reconciling, "_newest", broken)


def takes_what_copies_lack_from_nowhere(patch: Patch) -> None:
    """W6: a record that is made again says of no copy that it may lack entries."""
    patch.setattr(reconciling, "_with_doubt", lambda record, *_: record)


def closes_by_an_older_record(patch: Patch) -> None:
    """W4: a writer that meets another last fragment than its own closes the ledger with that."""
    patch.setattr(append, "is_as_left", lambda found, mine: True)


def accepts_without_reconciling(patch: Patch) -> None:
    """W8: the metadata that went back is accepted as it is."""

    def broken(self: SimulatedMetadata, noted: object) -> None:
        del noted
        self.is_held = False

    patch.setattr(SimulatedMetadata, "accept", broken)


def closes_through_a_hold(patch: Patch) -> None:
    """W8: a recovery is refused by nothing while the metadata that went back is not accepted."""
    never = property(lambda _: False, lambda *_: None)
    patch.setattr(SimulatedMetadata, "is_held", never, raising=False)


def tells_the_last_fragment_only(patch: Patch) -> None:
    """R5, W8: who was put in by a recovery hears of no end."""
    ends_told = Recovery.ends_told

    def broken(self: Recovery, closed: LedgerRecord) -> Iterator[tuple[BookieRef, bytes]]:
        last = fragment_note.encode_of(closed, closed.fragments[-1])
        return (one for one in ends_told(self, closed) if one[1] == last and one[0] in self.fencing.fenced)

    patch.setattr(Recovery, "ends_told", broken)


def takes_a_fragment_that_does_not_stand(patch: Patch) -> None:
    """W8"""
    patch.setattr(SimulatedBookie, "_is_ahead", lambda self, told: False)


def does_not_wait_for_what_is_admitted(patch: Patch) -> None:
    """W8: a bookie tells the notes that it has on disk, and not those of frames that it acknowledges next."""
    patch.setattr(SimulatedBookie, "_admitted", lambda _: [])
