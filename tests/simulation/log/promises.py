"""What one bookie owes to everybody whom it has answered, checked against its disk and its own later answers.

B1  what it acknowledges stands on its platter at that moment
B2  what was durable once is found by every later start, with the same bytes, and nothing else is
R1  a fence is answered when it stands on the platter, and is there after every start
owner  whoever wrote to a ledger first, or fenced it, is the only one who writes to it
R6  an entry that it has had is given, or called damaged where there is damage; never absent
"""

from __future__ import annotations

from collections.abc import Set

from bookie.log.format import Record, RecordKind
from bookie.wire import Columns, Frame, ReadReply, ReadRequest
from tests.bookie.simulated_disk import SimulatedDisk
from tests.simulation.engine.world import Violation

from .durable import is_durable

Copies = dict[int, bytes]


class Promises:
    """All that a disk was reported to hold since it was formatted. Every method raises Violation."""

    def __init__(self, name: str, disk: SimulatedDisk) -> None:
        self._name = name
        self._disk = disk
        self._submitted: set[Record] = set()
        self._sent: dict[int, set[int]] = {}
        self._under_way: dict[int, set[int]] = {}
        self._denied: set[tuple[int, int]] = set()
        self.placed: dict[int, tuple[Record, int]] = {}
        self.entries: dict[int, Copies] = {}
        self.fenced: set[int] = set()
        self._verifiers: dict[int, bytes] = {}
        self.lacs: dict[int, int] = {}
        self.damaged: set[int] = set()
        """Positions of records that were made unreadable on purpose."""

    # --- what it is told -------------------------------------------------------------------------

    def submitted(self, record: Record) -> None:
        """The core has asked the log to write this."""
        self._submitted.add(record)
        ids = record.columns.ids if record.columns is not None else ()
        for sent in (self._sent, self._under_way):
            sent.setdefault(record.ledger_id, set()).update(ids)
        self._denied.difference_update((record.ledger_id, entry_id) for entry_id in ids)

    def died(self) -> None:
        """Its process is gone: what was under way never comes, unless the disk had it already."""
        self._under_way.clear()

    def durable(self, record: Record, position: int, size: int) -> None:
        """The log says that this record is on disk."""
        if not is_durable(self._disk, record, position, size):
            raise Violation(
                "B1", f"{self._name} reports a record of {record.ledger_id} that is not on its platter"
            )
        self._remember(record, position, size)

    def replayed(self, record: Record, position: int, size: int) -> None:
        """A start has found this record."""
        known = self.placed.get(position)
        if known is not None and known[0] != record:
            raise Violation("B2", f"{self._name} finds another record at {position:#x} than it has served")
        if known is None and record not in self._submitted:
            raise Violation("B2", f"{self._name} finds a record at {position:#x} that nobody has sent")
        self._remember(record, position, size)

    def _remember(self, record: Record, position: int, size: int) -> None:
        self.placed[position] = record, size
        if self._verifiers.setdefault(record.ledger_id, record.verifier) != record.verifier:
            raise Violation("owner", f"{self._name} lets two owners write to ledger {record.ledger_id}")
        if record.kind is RecordKind.FENCE:
            self.fenced.add(record.ledger_id)
        if record.last_add_confirmed is not None:
            known = self.lacs.get(record.ledger_id, -1)
            self.lacs[record.ledger_id] = max(known, record.last_add_confirmed.last_entry)
        for entry_id, payload, _ in record.columns.rows() if record.columns is not None else ():
            self._remember_entry(record.ledger_id, entry_id, bytes(payload))

    def _remember_entry(self, ledger_id: int, entry_id: int, payload: bytes) -> None:
        held = self.entries.setdefault(ledger_id, {})
        if held.setdefault(entry_id, payload) != payload:
            raise Violation("I11", f"{self._name} has two bodies for entry {entry_id}")
        if (ledger_id, entry_id) in self._denied:
            raise Violation("R6", f"{self._name} has entry {entry_id}, which it has denied behind a fence")

    # --- what it answers -------------------------------------------------------------------------

    def acknowledged(self, frame: Frame) -> None:
        """It has answered OK."""
        self._must_hold(frame.ledger_id, frame.columns)
        statement = frame.last_add_confirmed
        if statement is not None and statement.last_entry > self.lacs.get(frame.ledger_id, -2):
            raise Violation(
                "B1", f"{self._name} acknowledged the LAC {statement.last_entry} before it was on disk"
            )

    def _must_hold(self, ledger_id: int, columns: Columns) -> None:
        held = self.entries.get(ledger_id, {})
        for entry_id, payload, _ in columns.rows():
            if held.get(entry_id) != bytes(payload):
                raise Violation("B1", f"{self._name} acknowledged entry {entry_id} before it was on disk")

    def fence_answered(self, ledger_id: int) -> None:
        if ledger_id not in self.fenced:
            raise Violation("R1", f"{self._name} answered a fence of {ledger_id} that is not on its platter")

    def page_answered(self, request: ReadRequest, reply: ReadReply, *, may_fail: bool) -> None:
        """`may_fail`: something is wrong with the disk, so that entries may be called damaged."""
        given = {entry_id: bytes(payload) for entry_id, payload, _ in reply.columns.rows()}
        held = self.entries.get(request.ledger_id, {})
        if not given.items() <= held.items():
            raise Violation("I10", f"{self._name} gives bytes that it does not hold: {sorted(given)}")
        damaged = {
            entry_id
            for entry_id in held.keys() | self._sent.get(request.ledger_id, set())
            if any(r.first_entry <= entry_id <= r.last_entry for r in reply.damaged)
        }
        if reply.damaged and not may_fail:
            raise Violation("B2", f"{self._name} calls {reply.damaged} damaged, and nothing is")
        covered = range(request.first_entry, reply.covered_through + 1)
        self._absent(request, {i for i in held if i in covered} - given.keys() - damaged)
        if request.fence:
            self._deny(request.ledger_id, covered, given.keys() | damaged)

    def _absent(self, request: ReadRequest, missing: set[int]) -> None:
        if missing:
            raise Violation(
                "R6", f"{self._name} says that {sorted(missing)}, which it has had, are not there"
            )

    def _deny(self, ledger_id: int, covered: range, shown: Set[int]) -> None:
        """Behind a fence it has said that these are not there: no start may bring them back."""
        sent = self._sent.get(ledger_id, set()) - self._under_way.get(ledger_id, set())
        self._denied.update((ledger_id, i) for i in sent if i in covered and i not in shown)

    def lac_answered(self, ledger_id: int, last_entry: int) -> None:
        if last_entry != self.lacs.get(ledger_id, -1):
            raise Violation(
                "I9", f"{self._name} tells the LAC {last_entry}, not {self.lacs.get(ledger_id, -1)}"
            )

    # --- what became of it -----------------------------------------------------------------------

    def copies_at(self, position: int) -> list[tuple[int, int]]:
        """(ledger, entry) of everything in the record at this place."""
        record = self.placed[position][0]
        ids = record.columns.ids if record.columns is not None else ()
        return [(record.ledger_id, entry_id) for entry_id in ids]

    def holds_some_of(self, position: int, request: ReadRequest) -> bool:
        """Whether the record at this place may be read for this page."""
        wanted = range(request.first_entry, request.last_entry + 1)
        return any(owner == request.ledger_id and i in wanted for owner, i in self.copies_at(position))

    def is_excused(self, ledger_id: int, entry_id: int) -> bool:
        """Whether a copy of the entry was made unreadable on purpose."""
        return any((ledger_id, entry_id) in self.copies_at(position) for position in self.damaged)
