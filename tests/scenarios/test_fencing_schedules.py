"""Known schedules between writer, recoverer and the bookies' own rules, step by step (F1, F13)."""

from __future__ import annotations

from bookie.index.local_ledger_state import LocalLedgerState as BookiesView
from bookie.log.format import BookieLogRecord
from bookie.storage.core import Answer, BookieCore, Write, remember
from bookie.wire import Columns, Frame, LacReply, ReadReply, Status, merge
from ledgers.errors import LedgerFenced
from ledgers.protocol.ledger_effects import Recovered
from metadata.records.ledger_record import LedgerState

from .ledger7 import KNOWS_NOTHING, LEDGER, entries, failure, in_recovery, page, proposed, record, writer

SMALL = (3, 3, 2)


class BookieByHand:
    """The real core; the test says when its log is synced, and when it crashes."""

    def __init__(self) -> None:
        self.answers: list[tuple[object, Status]] = []
        self._on_disk: list[BookieLogRecord] = []
        self._unsynced: list[tuple[BookieLogRecord, object]] = []
        self.crash()

    def crash(self) -> None:
        self._unsynced.clear()
        self._view = BookiesView(LEDGER)
        for kept in self._on_disk:
            remember(self._view, kept)
        self._core = BookieCore(lambda _: self._view)

    def sync(self) -> None:
        group, self._unsynced = self._unsynced, []
        for kept, ticket in group:
            self._on_disk.append(kept)
            self._perform(self._core.on_disk(kept, ticket))

    def add(self, columns: Columns, *, recovery: bool = False) -> None:
        self._perform(self._core.append(Frame(LEDGER, columns, None, recovery), "add"))

    def fence(self) -> None:
        self._perform(self._core.fence(LEDGER, "fence"))

    def lac_reply(self) -> LacReply:
        return LacReply(self._status, self._view.last_add_confirmed, vouched_since=1)

    def read_reply(self) -> ReadReply:
        stored = merge(r.columns for r in self._on_disk if r.columns is not None)
        return ReadReply(self._status, stored, 5000)

    @property
    def _status(self) -> Status:
        return Status.OK if self._view.known else Status.NO_SUCH_LEDGER

    def _perform(self, effects: list[Write | Answer]) -> None:
        for effect in effects:
            if isinstance(effect, Write):
                self._unsynced.append((effect.record, effect.ticket))
            else:
                self.answers.append((effect.ticket, effect.status))


def test_a_recovery_read_fences_so_that_what_it_found_absent_stays_absent() -> None:
    """R3, F1: the add that reaches B2 after the read that did not find it is refused."""
    b0, b1, b2 = BookieByHand(), BookieByHand(), BookieByHand()
    pipeline, recovery = writer(SMALL, appended=1), in_recovery(SMALL)  # the add to B0 is lost
    recovery.start()
    b0.fence()
    b0.sync()
    recovery.lac_answered(0, b0.lac_reply())
    b1.add(entries(0))
    b1.sync()
    assert pipeline.acked(2, 0) == []
    b1.fence()
    b1.sync()
    assert recovery.lac_answered(1, b1.lac_reply()) != []  # B2's LAC read is still on its way
    b2.fence()  # by the read
    b2.sync()
    recovery.read_answered(0, b0.read_reply())
    asked = proposed(recovery.read_answered(2, b2.read_reply()))
    assert recovery.changed(asked) == [Recovered(record(SMALL, state=LedgerState.IN_RECOVERY).closed(-1, 0))]
    b2.add(entries(0))
    assert b2.answers[-1] == ("add", Status.FENCED)
    assert isinstance(failure(pipeline.refused(3, LedgerFenced(LEDGER, "b2"))), LedgerFenced)
    assert pipeline.last_add_confirmed == -1


def test_what_a_bookie_took_before_the_fence_is_read_behind_it() -> None:
    """An add that waits for the disk when the fence comes is on disk before the fence is answered."""
    bookie = BookieByHand()
    bookie.add(entries(0))
    bookie.fence()
    assert bookie.answers == []
    bookie.sync()
    assert bookie.answers == [("add", Status.OK), ("fence", Status.OK)]
    assert bookie.read_reply() == page(0)


def test_a_fence_that_was_answered_survives_a_crash() -> None:
    """R1, F13: even of a ledger of which the bookie knew nothing."""
    bookie = BookieByHand()
    bookie.fence()
    bookie.sync()
    assert bookie.lac_reply() == KNOWS_NOTHING
    bookie.crash()
    bookie.add(entries(0))
    assert bookie.answers == [("fence", Status.OK), ("add", Status.FENCED)]


def test_a_fence_that_a_crash_took_was_never_answered() -> None:
    """R1, F13"""
    bookie = BookieByHand()
    bookie.fence()
    bookie.add(entries(0))
    assert bookie.answers == [("add", Status.FENCED)]  # refused as soon as a fence is on its way
    bookie.crash()
    bookie.add(entries(0))
    bookie.sync()
    assert bookie.answers[1:] == [("add", Status.OK)]
