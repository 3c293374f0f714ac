"""Recovery of a ledger whose record may be older than the ledger: what bookies outside its last ensemble have (W8)."""

from __future__ import annotations

from bookie.wire import EntryRange, ReadReply, Status
from ledgers.errors import LedgerRecoveryFailed
from ledgers.protocol.effects import ChangeRecord, Confirm, OpenLane, ReadFenced, RecoveryEffect, Send
from ledgers.protocol.recovery import READ_AHEAD_ENTRIES, Recovery
from metadata.records.ledger_record import LedgerState

from .ledger7 import (
    ALL,
    B0,
    B1,
    B3,
    B4,
    DIGESTER,
    KNOWS_NOTHING,
    entries,
    failure,
    forged,
    page,
    proposed,
    record,
    told,
)

PAIR = (2, 2, 2)
RECOVERING = record(PAIR, state=LedgerState.IN_RECOVERY)


def reads(first: int, *positions: int) -> list[RecoveryEffect]:
    """Fenced reads; the witnesses B3 and B4 stand at the positions behind the ensemble."""
    sources = (B0, B1, B3, B4)
    return [ReadFenced(n, sources[n], first, first + READ_AHEAD_ENTRIES - 1) for n in positions]


def reading(lac_through: int = -1) -> Recovery:
    """2/2/2: B0 and B1 are fenced and read from lac_through+1 on; the others have not been heard."""
    recovery = Recovery(RECOVERING, DIGESTER, awaits_witnesses=True)
    recovery.start()
    answer = told(lac_through) if lac_through >= 0 else KNOWS_NOTHING
    assert recovery.lac_answered(0, answer) == reads(lac_through + 1, 0, 1)
    recovery.lac_answered(1, answer)
    return recovery


def test_W8_the_end_is_not_decided_before_the_others_were_asked() -> None:
    recovery = reading()
    assert recovery.read_answered(0, page()) + recovery.read_answered(1, page()) == []
    assert proposed(recovery.witnessed(())) == RECOVERING.closed(-1, 0)


def test_W8_nor_is_it_called_undecided_before_that() -> None:
    recovery = reading()
    assert recovery.read_failed(0, "timeout") + recovery.read_failed(1, "timeout") == []
    assert recovery.witnessed((B3,)) == reads(0, 2)
    assert isinstance(failure(recovery.read_answered(2, page())), LedgerRecoveryFailed)


def test_W8_a_witness_is_read_from_where_the_walk_stands() -> None:
    recovery = reading(lac_through=4)
    recovery.read_answered(0, page(5))
    assert recovery.witnessed((B3, B4)) == reads(6, 2, 3)


def test_W8_a_witness_that_is_heard_while_fencing_is_read_with_the_ensemble() -> None:
    recovery = Recovery(RECOVERING, DIGESTER, awaits_witnesses=True)
    recovery.start()
    assert recovery.witnessed((B3,)) == []
    assert recovery.lac_answered(0, KNOWS_NOTHING) == reads(0, 0, 1, 2)


def test_W8_what_a_witness_has_is_written_back_to_the_ensemble_that_the_record_names() -> None:
    recovery = reading(lac_through=4)
    recovery.read_answered(0, page())
    recovery.read_answered(1, page())
    assert recovery.witnessed((B3,)) == reads(5, 2)
    assert recovery.read_answered(2, page(5, 6)) == [
        OpenLane(1, B0),
        OpenLane(2, B1),
        Send(1, entries(5, 6)),
        Send(2, entries(5, 6)),
    ]
    assert recovery.acked(1, 6) == []
    last = recovery.acked(2, 6)
    assert last[0] == Confirm(6)
    (closing,) = last[1:]
    assert isinstance(closing, ChangeRecord)
    assert (closing.record.last_entry, closing.record.fragments[-1].ensemble) == (6, ALL[:2])


def test_W8_while_a_witness_has_not_answered_the_end_stays_open() -> None:
    recovery = reading()
    recovery.witnessed((B3, B4))
    effects = recovery.read_answered(0, page()) + recovery.read_answered(1, page())
    assert effects + recovery.read_answered(2, page()) == []
    assert proposed(recovery.read_answered(3, page())) == RECOVERING.closed(-1, 0)


def test_W8_silence_damage_and_wrong_digests_of_a_witness_neither_keep_an_entry_nor_stop_the_close() -> None:
    for answer in (
        page(damaged=(EntryRange(0, 0),)),
        forged(0),
        ReadReply(Status.UNKNOWN),
    ):
        recovery = reading()
        recovery.witnessed((B3,))
        recovery.read_answered(0, page())
        recovery.read_answered(1, page())
        assert proposed(recovery.read_answered(2, answer)) == RECOVERING.closed(-1, 0)
    recovery = reading()
    recovery.witnessed((B3,))
    recovery.read_answered(0, page())
    recovery.read_answered(1, page())
    assert proposed(recovery.read_failed(2, "timeout")) == RECOVERING.closed(-1, 0)


def test_W8_that_a_witness_lacks_an_entry_ends_no_ledger() -> None:
    """R3: only bookies of the write set can say that an entry has no ack quorum."""
    recovery = reading()
    recovery.witnessed((B3, B4))
    recovery.read_answered(2, page())
    recovery.read_answered(3, page())
    recovery.read_failed(0, "timeout")
    assert isinstance(failure(recovery.read_failed(1, "timeout")), LedgerRecoveryFailed)
