"""The ledgers as everybody but the bookie knows them: what it owes, to whom, and what it may be excused for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from metadata.records.ledger_record import BookieRef, Ensemble, Fragment, LedgerRecord, LedgerState, Shape
from tests.bookie.entries import Entry, entry_of
from tests.bookie.logs import INCARNATION
from tests.simulation.engine.chance import Stream, key_of

from .metadata import Metadata

ME = BookieRef("b0", INCARNATION)
OTHERS = tuple(BookieRef(f"b{n}", f"i{n}") for n in range(1, 6))
SHAPES = (Shape(1, 1, 1), Shape(2, 2, 1), Shape(3, 3, 2), Shape(3, 2, 2), Shape(4, 2, 1))
OWNER = b"v" * 32
"""Who writes to a ledger that has a password."""

PROTECTED = 0.25
"""A share of the ledgers."""


@dataclass(eq=False)
class Ledger:
    """One ledger. `record` is the metadata's last one, also when that is deleted.

    `held`: entries that the bookie must have; `sent`: entries that it may have. `damaged`: those of which a copy was
    damaged; `excused`: those of which no other copy was known then; `hidden`: those that the index has lost;
    `state_excused`: a record with its fence, or the like, was damaged. `in_limbo`: None for perhaps. `is_gone`: it is
    deleted, and the bookie has forgotten it. `touched`: how often clients have come for it, `busy`: how many are there
    now.
    """

    ledger_id: int
    record: LedgerRecord
    held: set[int] = field(default_factory=set)
    sent: set[int] = field(default_factory=set)
    excused: set[int] = field(default_factory=set)
    damaged: set[int] = field(default_factory=set)
    hidden: set[int] = field(default_factory=set)
    state_excused: bool = False
    lac: int = -1
    is_fenced: bool = False
    may_be_fenced: bool = False
    in_limbo: bool | None = False
    is_deleted: bool = False
    is_listed: bool = True
    is_gone: bool = False
    touched: int = 0
    busy: int = 0
    placed: frozenset[int] = frozenset()

    def places_here(self, entry_id: int) -> bool:
        """Whether the metadata places the entry at this bookie (rule W1): the rule, one entry at a time."""
        return is_placed(self.record, entry_id)

    def all_placed(self) -> frozenset[int]:
        """Every entry of a closed ledger that is placed here."""
        last = self.record.last_entry
        return frozenset(n for n in range(last + 1 if last is not None else 0) if self.places_here(n))

    def may_be_damaged(self, first_entry: int, last_entry: int) -> bool:
        """Whether a frame of this span may be unreadable."""
        return any(first_entry <= n <= last_entry for n in self.damaged)

    def owes(self, entry_id: int) -> bool:
        """Whether the entry is to be here: nothing that is placed elsewhere, nothing behind the end."""
        if not self.record.is_closed:
            return True
        return entry_id <= (self.record.last_entry or 0) and self.places_here(entry_id)

    @property
    def is_named(self) -> bool:
        """Whether some fragment names this bookie."""
        return any(ME in fragment.ensemble for fragment in self.record.fragments)

    @property
    def owed(self) -> set[int]:
        return {n for n in self.held if self.owes(n)}


def is_placed(record: LedgerRecord, entry_id: int, bookie: BookieRef = ME) -> bool:
    """Whether this record places the entry at this bookie."""
    ensemble, shape = record.fragment_of(entry_id).ensemble, record.shape
    return (
        bookie in ensemble and (ensemble.index(bookie) - entry_id) % shape.ensemble_size < shape.write_quorum
    )


class Ledgers:
    """All there are, by id."""

    def __init__(self, seed: int, metadata: Metadata) -> None:
        self._seed = seed
        self._metadata = metadata
        self._known: dict[int, Ledger] = {}

    def __iter__(self) -> Iterator[Ledger]:
        return iter(list(self._known.values()))

    def of(self, ledger_id: int) -> Ledger:
        """The ledger; created when it is first asked for."""
        found = self._known.get(ledger_id)
        if found is None:
            record = self._drawn(ledger_id)
            self._metadata.put(record)
            found = self._known[ledger_id] = Ledger(ledger_id, record)
        return found

    def entry(self, ledger_id: int, entry_id: int, payload_bytes: int) -> Entry:
        """The one entry under this id, in every copy."""
        return entry_of(ledger_id, entry_id, payload_bytes)

    def _drawn(self, ledger_id: int) -> LedgerRecord:
        chance = Stream(key_of(self._seed, "ledger", str(ledger_id)))
        shape = chance.choice(SHAPES)
        position = chance.below(shape.ensemble_size)
        verifier = OWNER if chance.happens(PROTECTED) else b""
        return LedgerRecord(
            ledger_id, shape, (Fragment(0, ensemble_with_me(shape, position)),), verifier=verifier
        )

    # --- the metadata as it is now --------------------------------------------------------------

    def look(self) -> None:
        """Takes what the bookie has changed in the metadata into account: it may have adopted something."""
        for ledger in self:
            record = self._metadata.record(ledger.ledger_id)
            if record is not None:
                self._now(ledger, record)

    def put(self, ledger: Ledger, record: LedgerRecord) -> None:
        """The metadata says so."""
        self._metadata.put(record)
        self._now(ledger, record)

    def _now(self, ledger: Ledger, record: LedgerRecord) -> None:
        if record is ledger.record:
            return
        was_closed, ledger.record = ledger.record.is_closed, record
        placed = ledger.all_placed()
        if was_closed:  # what is placed here anew was copied before
            ledger.held |= placed - ledger.placed
            ledger.held -= ledger.placed - placed
        ledger.placed = placed

    # --- what clients do to it ------------------------------------------------------------------

    def closed(self, ledger: Ledger) -> LedgerRecord:
        """The record, closed behind what this bookie has acknowledged; nothing that was confirmed lies beyond."""
        record = ledger.record
        if record.is_closed:
            return record
        if record.state is LedgerState.IN_RECOVERY:  # what was written back here counts now (rule R4)
            record = replace(record, fragments=(*record.fragments[:-1], joined(record)))
        last = max((n for n in ledger.held if is_placed(record, n)), default=-1)
        return record.closed(last, 0)

    def delete(self, ledger: Ledger) -> None:
        ledger.is_deleted = True
        self._metadata.delete(ledger.ledger_id)

    def unlist(self, ledger: Ledger) -> None:
        ledger.is_listed = False
        self._metadata.unlist(ledger.ledger_id)

    def list_again(self) -> None:
        self._metadata.calm()
        for ledger in self:
            ledger.is_listed = True


def ensemble_with_me(shape: Shape, position: int) -> Ensemble:
    others = OTHERS[: shape.ensemble_size - 1]
    return (*others[:position], ME, *others[position:])


def joined(record: LedgerRecord) -> Fragment:
    """The last fragment with this bookie in it."""
    last = record.fragments[-1]
    return last if ME in last.ensemble else last.moved(last.ensemble[0], ME)


def left(record: LedgerRecord) -> Fragment:
    """The last fragment without this bookie."""
    last = record.fragments[-1]
    free = next(one for one in OTHERS if one not in last.ensemble)
    return last.moved(ME, free)
