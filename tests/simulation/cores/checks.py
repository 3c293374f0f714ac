"""What must hold whatever happens, watched from outside the machines under test (I1 … I12).

Each violation names its rule. The checker is told of every append, every record on a disk, every confirmation, every
change of metadata, every byte a reader is given, and every end a client believes in.

    I1  nothing is confirmed beyond the end of a closed ledger
    I2  confirmed in id order
    I3  confirmed: Qa bookies that the committed metadata names for the entry have had it on disk
    I4  closed: so has every entry up to the last
    I5  fragments strictly increasing (the record itself sees to it), earlier ones never rewritten
    I6  what a reader was given, or was told is confirmed, is in the final ledger
    I7  a closed record never changes, but for who holds the copies of its entries
    I8  OPEN → IN_RECOVERY → CLOSED, or OPEN → CLOSED
    I9  the fence and the LAC of a bookie never go back, nor does a fenced bookie store what its writer sends later
    I10 a reader is given exactly the bytes that were appended under the id it asked for
    I11 one (ledger, entry) never has two bodies
    I12 what is under way is bounded
    I13 a copy that the record does not call lacking has been on its bookie's disk
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from bookie.wire import Columns, LacStatement
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState
from tests.simulation.engine.world import Violation

_MAY_BECOME = {
    LedgerState.OPEN: tuple(LedgerState),
    LedgerState.IN_RECOVERY: (LedgerState.IN_RECOVERY, LedgerState.CLOSED),
    LedgerState.CLOSED: (),
}


class Checker:
    """Sees everything, for one ledger. Every method raises Violation where a promise is broken."""

    heals = False
    """Whether bookies put each other into the places of what nobody writes any more."""

    watches_bookies = True
    """Whether a bookie's own promises (I9) are checked; without, a bug there must show by what it leads to."""

    def __init__(self, first: LedgerRecord) -> None:
        self.committed = first
        self.is_deleted = False
        self.confirmed_through = -1
        self.told_through = -1
        self.read_through = -1
        self.stored_through = -1
        self.written: dict[int, bytes] = {}
        self._striping = Striping(first.shape)
        self._had: dict[BookieRef, set[int]] = {}
        self._fenced: set[BookieRef] = set()
        self._lac_of: dict[BookieRef, int] = {}
        self._lost: LedgerRecord | None = None
        self._has_lost_end = False
        self.was_dropped = False
        self.copied: Callable[[LedgerRecord], Mapping[int, bytes]] | None = None
        """What is in the objects that a record names."""

    # --- writing --------------------------------------------------------------------------------

    def appended(self, entry_id: int, payload: bytes) -> None:
        """An application appends this."""
        self.written[entry_id] = payload

    def stored(self, bookie: BookieRef, columns: Columns, *, recovery: bool) -> None:
        """These entries are on the bookie's disk: synced, or left there by a crash."""
        held = self._had.setdefault(bookie, set())
        for entry_id, payload, _ in columns.rows():
            if not self._is_what_was_appended(entry_id, payload):
                raise Violation("I11", f"entry {entry_id} has a second body on {bookie}")
            held.add(entry_id)
            self.stored_through = max(self.stored_through, entry_id)
        if len(columns) and not recovery and self.watches_bookies and bookie in self._fenced:
            raise Violation(
                "I9", f"{bookie} has stored {columns.last_entry} of the writer it is fenced against"
            )

    def _is_what_was_appended(self, entry_id: int, payload: bytes | memoryview) -> bool:
        written = self.written.get(entry_id)
        return written is not None and payload == written

    def told(self, statement: LacStatement | None) -> None:
        """Readers may act on every last-add-confirmed that a frame carries."""
        if statement is None:
            return
        self.told_through = max(self.told_through, statement.last_entry)
        if statement.last_entry > self.confirmed_through:
            raise Violation("I6", f"entry {statement.last_entry} was told to readers before it was confirmed")

    def confirmed(self, through: int) -> None:
        """The application hears that everything through this entry is confirmed."""
        if through <= self.confirmed_through:
            raise Violation("I2", f"the LAC went from {self.confirmed_through} to {through}")
        last = self.committed.last_entry
        if last is not None and through > last:
            raise Violation("I1", f"entry {through} was confirmed after the ledger was closed at {last}")
        for entry_id in range(self.confirmed_through + 1, through + 1):
            self._must_be_durable(entry_id, "I3", "confirmed")
        self.confirmed_through = through

    # --- metadata -------------------------------------------------------------------------------

    def changed(self, record: LedgerRecord) -> None:
        """A compare-and-swap was applied."""
        before, self.committed = self.committed, record
        if self.is_deleted:
            raise Violation("I8", "the deleted ledger is back")
        if before.is_closed and _is_taken_over(before, record):
            self._check_lacking(record)
            return self._closed(record)
        if record.state not in _MAY_BECOME[before.state]:
            rule = "I7" if before.is_closed else "I8"
            raise Violation(rule, f"the state went from {before.state} to {record.state}")
        self._check_fragments(before, record)
        self._check_lacking(record)
        return self._closed(record) if record.is_closed else None

    def went_back(self, older: LedgerRecord) -> None:
        """The store has this record again. What was confirmed, told and read meanwhile is promised all the same; who
        believes in an end that was lost may be told another one."""
        if self._lost is None or len(self.committed.fragments) >= len(self._lost.fragments):
            self._lost = self.committed
        self._has_lost_end |= self.committed.is_closed
        self.committed = older

    def nobody_knows_an_end(self) -> None:
        """The older metadata is accepted, and no bookie was told an end: entries that were never confirmed, and read
        because a recovery had kept them, may be lost with the end that it set."""
        if self._has_lost_end:
            self.read_through = min(self.read_through, self.confirmed_through)

    def brought_up(self, record: LedgerRecord) -> None:
        """An operator has had the older record made again from what bookies noted, in whatever state it stood."""
        self.committed = record
        self._check_lacking(record)
        if record.is_closed:
            self._closed(record)

    def deleted(self) -> None:
        """The record is gone."""
        self.is_deleted = True

    def _check_fragments(self, before: LedgerRecord, record: LedgerRecord) -> None:
        """Only the last fragment of what stood may be replaced, unless a close drops what lies beyond it."""
        for one, other in zip(before.fragments[:-1], record.fragments, strict=False):
            heirs = other.ensemble if self.heals else one.ensemble
            if replace(one, lacking=(), ensemble=heirs) != replace(other, lacking=()):
                raise Violation("I5", f"the earlier fragment {one} became {other}")
        if len(record.fragments) < len(before.fragments) and not record.is_closed:
            raise Violation("I5", "a fragment vanished")
        if record.state is LedgerState.IN_RECOVERY and _placed(record) != _placed(before):
            raise Violation("I5", "a recovery published its ensemble before its close")

    def _check_lacking(self, record: LedgerRecord) -> None:
        """Of each fragment that is over."""
        for fragment, last in record.spans():
            if not fragment.ensemble:
                continue
            for entry_id in range(fragment.first_entry, (last if last is not None else -1) + 1):
                for position in self._striping.write_set(entry_id):
                    lack = fragment.lacking_at(position)
                    is_told = lack is not None and lack.first_entry <= entry_id <= lack.last_entry
                    bookie = fragment.ensemble[position]
                    if not is_told and entry_id not in self._had.get(bookie, ()):
                        raise Violation("I13", f"{bookie} never had entry {entry_id}, and nobody is told")

    def _closed(self, record: LedgerRecord) -> None:
        last = record.last_entry
        assert last is not None
        promised = (
            ("I1", self.confirmed_through, "was confirmed"),
            ("I6", self.told_through, "was told to readers"),
            ("I6", self.read_through, "was read"),
        )
        for rule, entry_id, what in promised:
            if last < entry_id:
                raise Violation(rule, f"closed at {last}, but {entry_id} {what}")
        if record.is_in_object_store:
            self._check_copied(record)
        else:
            for entry_id in range(last + 1):
                self._must_be_durable(entry_id, "I4", "in the closed ledger")
        length = sum(len(self.written[entry_id]) for entry_id in range(last + 1))
        if record.length_bytes != length:
            raise Violation("I4", f"the length is {record.length_bytes}, not {length}")

    def _check_copied(self, record: LedgerRecord) -> None:
        """Bookies may have nothing of it."""
        self.was_dropped |= record.is_on_no_bookie
        assert self.copied is not None
        found = self.copied(record)
        wrong = [n for n in range((record.last_entry or 0) + 1) if found.get(n) != self.written[n]]
        if wrong:
            raise Violation(
                "O2", f"the object store has not got entry {wrong[0]}, which the record says that it has"
            )

    def _must_be_durable(self, entry_id: int, rule: str, why: str) -> None:
        named, holders = self._holders(self.committed, entry_id)
        if rule == "I3" and self._lost is not None:  # its writer may not know that the store went back
            holders = max(holders, self._holders(self._lost, entry_id)[1], key=len)
        if len(holders) < self.committed.shape.ack_quorum:
            have = ", ".join(map(str, holders)) or "none"
            raise Violation(
                rule, f"entry {entry_id} is {why}; of {', '.join(map(str, named))} only {have} had it"
            )

    def _holders(self, record: LedgerRecord, entry_id: int) -> tuple[list[BookieRef], list[BookieRef]]:
        """The bookies that the record names for the entry, and those of them that have had it."""
        ensemble = record.fragment_of(entry_id).ensemble
        named = [ensemble[position] for position in self._striping.write_set(entry_id)]
        return named, [bookie for bookie in named if entry_id in self._had.get(bookie, ())]

    # --- bookies --------------------------------------------------------------------------------

    def fence_answered(self, bookie: BookieRef) -> None:
        """The bookie has said that its fence stands."""
        self._fenced.add(bookie)

    def lac_answered(self, bookie: BookieRef, last_entry: int) -> None:
        """The bookie has told this last-add-confirmed."""
        if not self.watches_bookies:
            return
        known = self._lac_of.get(bookie, -1)
        if last_entry < known:
            raise Violation("I9", f"{bookie} told the LAC {last_entry} after {known}")
        self._lac_of[bookie] = last_entry

    def restarted(self, bookie: BookieRef, *, fenced: bool, held: Mapping[int, object]) -> None:
        """The bookie serves again: fence and entries are what they were."""
        if not self.watches_bookies:
            return
        if bookie in self._fenced and not fenced:
            raise Violation("I9", f"{bookie} forgot its fence at a restart")
        gone = self._had.get(bookie, set()) - held.keys()
        if gone:
            raise Violation("B2", f"{bookie} forgot the entries {sorted(gone)} at a restart")

    # --- readers and ends ------------------------------------------------------------------------

    def returned(self, who: str, entry_id: int, payload: bytes | memoryview) -> None:
        """A reader was given these bytes for this entry."""
        if not self._is_what_was_appended(entry_id, payload):
            raise Violation("I10", f"{who} was given other bytes for entry {entry_id}")
        last = self.committed.last_entry
        if self._has_lost_end and (last is None or entry_id > last):
            return  # by an end that is lost
        if last is not None and entry_id > last:
            raise Violation("I6", f"{who} read entry {entry_id} of the ledger closed at {last}")
        self.read_through = max(self.read_through, entry_id)

    def ended(self, who: str, record: LedgerRecord) -> None:
        """Somebody was told that the ledger is closed like this: all are told the same."""
        if self._has_lost_end:
            return
        if not self.committed.is_closed or record.last_entry != self.committed.last_entry:
            raise Violation(
                "I7", f"{who} believes in the end {record.last_entry}, not {self.committed.last_entry}"
            )

    def delayed(self, entry_id: int) -> None:
        """An entry has its ack quorum, and the writer does not confirm it."""
        raise Violation("W6", f"entry {entry_id} has its ack quorum and is not confirmed")

    def bounded(self, what: str, count: int, limit: int) -> None:
        """Something that waits or is under way has its bound."""
        if count > limit:
            raise Violation("I12", f"{what}: {count}, and the bound is {limit}")


def _placed(record: LedgerRecord) -> list[Fragment]:
    """Where its entries are; a bookie may say at any time which of those of an earlier fragment its copy lacks."""
    return [replace(one, lacking=()) for one in record.fragments]


def _is_taken_over(before: LedgerRecord, record: LedgerRecord) -> bool:
    """Whether all is as it was but for the bookies that are named."""
    if len(before.fragments) != len(record.fragments):
        return False
    fragments = tuple(
        replace(one, ensemble=other.ensemble, lacking=other.lacking)
        for one, other in zip(before.fragments, record.fragments, strict=True)
    )
    moved = replace(before, cold=record.cold, cold_version=record.cold_version)
    as_it_was = replace(moved, fragments=fragments, nonce=record.nonce)
    return record != before and as_it_was == record


__all__ = ["Checker", "Violation"]
