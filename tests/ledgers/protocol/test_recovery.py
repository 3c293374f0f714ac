"""The recovery machine, one answer at a time: what it asks next, and what it does not."""

from __future__ import annotations

from bookie.wire import LacReply, ReadReply, Status
from ledgers.integrity.digest import Crc32cDigester
from ledgers.protocol.effects import ReadFenced, RecoveryEffect
from ledgers.protocol.recovery import READ_AHEAD_ENTRIES, Recovery
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape

LEDGER_ID = 7
ENSEMBLE = tuple(BookieRef(f"b{n}", "i") for n in range(3))


def fenced() -> tuple[Recovery, list[RecoveryEffect]]:
    """A ledger of which nobody knows any entry, and whose bookies are fenced; what is asked of them then."""
    record = LedgerRecord(LEDGER_ID, Shape(3, 3, 2), (Fragment(0, ENSEMBLE),)).in_recovery()
    recovery = Recovery(record, Crc32cDigester(LEDGER_ID))
    recovery.start()
    assert recovery.lac_answered(0, LacReply(Status.NO_SUCH_LEDGER, vouched_since=1)) == []
    return recovery, recovery.lac_answered(1, LacReply(Status.OK, vouched_since=1))


def asked(effects: list[RecoveryEffect]) -> list[tuple[int, int, int]]:
    return [(e.position, e.first_entry, e.last_entry) for e in effects if isinstance(e, ReadFenced)]


def test_R3_every_bookie_is_read_from_the_first_entry_that_is_not_known() -> None:
    _, effects = fenced()
    assert asked(effects) == [(n, 0, READ_AHEAD_ENTRIES - 1) for n in range(3)]


def test_R3_a_bookie_that_has_answered_ahead_of_the_walk_is_not_read_on() -> None:
    """One silence decides nothing, and what lies further on is not wanted yet."""
    recovery, _ = fenced()
    assert asked(recovery.read_answered(0, ReadReply(Status.OK, covered_through=100))) == []
