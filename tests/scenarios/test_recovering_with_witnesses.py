"""Recovery of a ledger whose record may be older than the ledger: what bookies outside its last ensemble have (W8)."""

from __future__ import annotations

from dataclasses import replace

from bookie.wire import EntryRange, LacReply, ReadReply, Status
from ledgers.errors import LedgerRecoveryFailed
from ledgers.protocol.effects import (
    ChangeRecord,
    Confirm,
    OpenLane,
    ReadFenced,
    RecoveryEffect,
    Send,
    StartOver,
)
from ledgers.protocol.recovery import READ_AHEAD_ENTRIES, Recovery
from metadata.records.ledger_record import Fragment, LedgerRecord, LedgerState, Shape

from .ledger7 import (
    ALL,
    B0,
    B1,
    B2,
    B3,
    B4,
    B5,
    DIGESTER,
    KNOWS_NOTHING,
    entries,
    failure,
    forged,
    lac,
    page,
    proposed,
    record,
    told,
)

PAIR = (2, 2, 2)
RECOVERING = replace(record(PAIR, state=LedgerState.IN_RECOVERY), identity=b"\7" * 16)
HOLDS_IT = LacReply(Status.OK)
TWO_FRAGMENTS = replace(RECOVERING, fragments=(Fragment(0, (B0, B3), 0), Fragment(5, (B0, B1), 10)))


def reads(first: int, *positions: int) -> list[RecoveryEffect]:
    """Fenced reads; the witnesses B3 and B4 stand at the positions behind the ensemble."""
    sources = (B0, B1, B3, B4)
    return [ReadFenced(n, sources[n], first, first + READ_AHEAD_ENTRIES - 1) for n in positions]


def fenced(recovering: LedgerRecord = RECOVERING, *, lac_through: int = -1) -> Recovery:
    """2/2/2: B0 and B1 are fenced; the others have not been heard, and nothing is read."""
    recovery = Recovery(recovering, DIGESTER, awaits_witnesses=True)
    recovery.start()
    answer = told(lac_through) if lac_through >= 0 else KNOWS_NOTHING
    assert recovery.lac_answered(0, answer) + recovery.lac_answered(1, answer) == []
    return recovery


def reading(**witnesses: LacReply) -> Recovery:
    """B0, B1 and these are read from entry 0 on."""
    recovery = fenced()
    replies = {{"b3": B3, "b4": B4}[name]: reply for name, reply in witnesses.items()}
    assert recovery.witnessed(replies) == reads(0, *range(2 + len(witnesses)))
    return recovery


def test_W8_nothing_is_read_before_the_others_were_asked() -> None:
    recovery = fenced(lac_through=4)
    assert recovery.witnessed({}) == reads(5, 0, 1)


def test_W8_who_answers_while_the_ensemble_is_being_fenced_is_read_with_it() -> None:
    recovery = Recovery(RECOVERING, DIGESTER, awaits_witnesses=True)
    recovery.start()
    assert recovery.witnessed({B3: HOLDS_IT}) == []
    assert recovery.lac_answered(0, KNOWS_NOTHING) == reads(0, 0, 1, 2)


def test_W8_who_holds_the_ledger_or_cannot_tell_is_read_and_nobody_else() -> None:
    recovery = fenced()
    replies = {B3: HOLDS_IT, B5: KNOWS_NOTHING, B4: LacReply(Status.UNKNOWN)}
    assert recovery.witnessed(replies) == reads(0, 0, 1, 2, 3)


def test_W8_of_a_ledger_without_an_identity_no_witness_is_read_and_what_is_proven_counts() -> None:
    """What it holds may be another ledger of that id."""
    recovery = fenced(record(PAIR, state=LedgerState.IN_RECOVERY))
    assert recovery.witnessed({B3: told(3)}) == reads(0, 0, 1)
    recovery.read_answered(0, page())
    assert "b3 proves that entry 3 was confirmed" in str(failure(recovery.read_answered(1, page())))


def probe(last: int, *positions: int) -> list[RecoveryEffect]:
    """What has each of these witnesses from entry 0 to the ensemble's LAC?"""
    return [ReadFenced(n, (B0, B1, B3, B4)[n], 0, last) for n in positions]


def test_W8_where_a_witness_holds_entries_before_the_ensembles_lac_the_whole_last_fragment_is_read() -> None:
    """B0 left the ensemble and was chosen again: its LAC lies behind entries that only witnesses have."""
    recovery = fenced(lac_through=8)
    assert recovery.witnessed({B3: told(2), B4: told(7)}) == probe(8, 2, 3)
    assert recovery.read_answered(3, page(through=8)) == []
    assert recovery.read_answered(2, page(3, 4, 5, 6, 7, 8, through=8)) == reads(0, 0, 1, 2, 3)
    recovery.read_answered(0, page(0, 1, 2, 8, 9))
    recovery.read_answered(1, page(0, 1, 2, 3))
    recovery.read_answered(3, page())
    recovery.read_answered(2, page(3, 4, 5, 6, 7, 8, 9))
    assert recovery.acked(1, 9) == []
    closing = recovery.acked(2, 9)[-1]
    assert isinstance(closing, ChangeRecord)
    assert closing.record == RECOVERING.closed(9, 20), "and no copy is in doubt"


def test_W8_so_it_is_where_nobody_can_tell_what_the_witness_holds() -> None:
    for answer in (page(damaged=(EntryRange(2, 2),)), page(through=7)):
        recovery = fenced(lac_through=8)
        recovery.witnessed({B3: told(2)})
        assert recovery.read_answered(2, answer) == reads(0, 0, 1, 2)
    recovery = fenced(lac_through=8)
    recovery.witnessed({B3: told(2)})
    assert recovery.read_failed(2, "timeout") == reads(0, 0, 1, 2)


def test_W8_so_it_is_where_a_witness_proves_more_than_the_ensemble() -> None:
    """B3 came after those that are away, and has nothing before it."""
    recovery = fenced(lac_through=8)
    assert recovery.witnessed({B3: told(9)}) == reads(0, 0, 1, 2)
    recovery.read_answered(2, page(9, 10))
    recovery.read_answered(0, page(0, 1, 2, 8))
    error = str(failure(recovery.read_answered(1, page(0, 1, 2, 3))))
    assert "b3 proves that entry 9 was confirmed, and no bookie that answers has entry 4" in error


def test_W8_a_bookie_to_which_a_recovery_wrote_back_that_did_not_end_makes_no_difference() -> None:
    """It is named by no record, and was told the LAC; all that it holds comes after that."""
    recovery = fenced(lac_through=8)
    assert recovery.witnessed({B3: told(8)}) == probe(8, 2)
    assert recovery.read_answered(2, page(through=8)) == reads(9, 0, 1, 2)
    assert recovery.read_failed(1, "killed") + recovery.read_answered(2, page()) == []
    assert proposed(recovery.read_answered(0, page())).last_entry == 8, "B0 alone can say so"


def test_W8_a_witness_that_left_before_the_last_fragment_began_changes_nothing() -> None:
    recovery = fenced(TWO_FRAGMENTS, lac_through=8)
    assert recovery.witnessed({B3: told(4)}) == reads(9, 0, 1, 2)


def test_W8_nor_does_one_that_failed_before_anything_was_confirmed_and_that_no_fragment_names() -> None:
    recovery = fenced(lac_through=8)
    assert recovery.witnessed({B3: HOLDS_IT}) == reads(9, 0, 1, 2)
    closing = recovery.read_answered(2, page()) + recovery.read_failed(1, "killed")
    assert proposed(closing + recovery.read_answered(0, page())).last_entry == 8, "B0 alone can say so"


def test_W8_nothing_is_closed_before_an_entry_that_a_witness_proves() -> None:
    recovery = reading(b3=told(3), b4=HOLDS_IT)
    recovery.read_answered(2, page())
    recovery.read_failed(3, "killed")
    recovery.read_answered(0, page(0))
    error = failure(recovery.read_answered(1, page()))
    assert isinstance(error, LedgerRecoveryFailed) and not error.is_undecided
    assert "b3 proves that entry 3 was confirmed, and no bookie that answers has entry 1" in str(error)


def test_W8_nor_before_one_that_is_proven_when_the_ensemble_was_fenced_already() -> None:
    three = replace(RECOVERING, shape=Shape(3, 3, 2), fragments=(Fragment(0, (B0, B1, B2)),))
    recovery = Recovery(three, DIGESTER, awaits_witnesses=True)
    recovery.start()
    recovery.witnessed({})
    recovery.lac_answered(0, told(5))
    recovery.lac_answered(1, told(5))
    assert recovery.lac_answered(2, told(99)) == []
    assert recovery.read_answered(0, page()) + recovery.read_answered(1, page()) == [], "B2 may have it"
    assert "b2 proves that entry 99" in str(failure(recovery.read_answered(2, page())))


def test_W8_nor_before_one_that_is_proven_by_a_page() -> None:
    recovery = reading(b3=told(0))
    recovery.read_answered(2, replace(page(0, through=0), last_add_confirmed=lac(150)))
    recovery.read_failed(2, "killed")
    recovery.read_answered(0, page())
    assert "b3 proves that entry 150" in str(failure(recovery.read_answered(1, page())))


def test_W8_where_a_witness_knows_of_the_last_fragment_only_when_it_is_fenced_all_begins_anew() -> None:
    recovery = reading(b3=HOLDS_IT)
    assert recovery.read_answered(2, replace(page(0), last_add_confirmed=lac(0))) == [StartOver(RECOVERING)]


def test_W8_what_a_witness_has_is_written_back_to_the_ensemble_that_the_record_names() -> None:
    recovery = fenced(TWO_FRAGMENTS, lac_through=4)
    assert recovery.witnessed({B3: HOLDS_IT}) == reads(5, 0, 1, 2)
    recovery.read_answered(0, page())
    recovery.read_answered(1, page())
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
    recovery = reading(b3=HOLDS_IT, b4=HOLDS_IT)
    effects = recovery.read_answered(0, page()) + recovery.read_answered(1, page())
    assert effects + recovery.read_answered(2, page()) == []
    assert proposed(recovery.read_answered(3, page())) == RECOVERING.closed(-1, 0)


def test_W8_silence_damage_and_wrong_digests_of_a_witness_neither_keep_an_entry_nor_stop_the_close() -> None:
    for answer in (
        page(damaged=(EntryRange(0, 0),)),
        forged(0),
        ReadReply(Status.UNKNOWN),
    ):
        recovery = reading(b3=HOLDS_IT)
        recovery.read_answered(0, page())
        recovery.read_answered(1, page())
        assert proposed(recovery.read_answered(2, answer)) == RECOVERING.closed(-1, 0)
    recovery = reading(b3=HOLDS_IT)
    recovery.read_answered(0, page())
    recovery.read_answered(1, page())
    assert proposed(recovery.read_failed(2, "timeout")) == RECOVERING.closed(-1, 0)


def test_W8_nor_does_a_statement_with_a_wrong_digest() -> None:
    recovery = reading(b3=LacReply(Status.OK, lac(9)._replace(last_entry=10)))
    for position in range(2):
        assert recovery.read_answered(position, page()) == []
    assert proposed(recovery.read_answered(2, page())) == RECOVERING.closed(-1, 0)


def test_W8_of_an_older_record_no_entry_is_absent_before_all_of_its_write_set_were_heard() -> None:
    """It may have its ack quorum with a bookie that the record does not name, and that is away."""
    recovery = reading(b3=told(0))
    recovery.read_answered(2, page(0))
    assert [type(one) for one in recovery.read_answered(0, page(0))].count(ChangeRecord) == 0
    assert recovery.read_answered(1, page(0, 1)) == [Send(1, entries(1)), Send(2, entries(1))]
    recovery.acked(1, 1)
    closing = recovery.acked(2, 1)[-1]
    assert isinstance(closing, ChangeRecord)
    assert closing.record.last_entry == 1


def test_W8_nor_is_one_that_is_proven_called_undecided() -> None:
    three = replace(RECOVERING, shape=Shape(3, 3, 2), fragments=(Fragment(0, (B0, B1, B2)),))
    recovery = Recovery(three, DIGESTER, awaits_witnesses=True)
    recovery.start()
    recovery.lac_answered(0, KNOWS_NOTHING)
    recovery.lac_answered(1, KNOWS_NOTHING)
    recovery.witnessed({B3: told(1)})
    recovery.read_answered(3, page(0))
    recovery.read_failed(1, "timeout")
    recovery.read_answered(0, page())
    assert "b3 proves that entry 1 was confirmed" in str(failure(recovery.read_failed(2, "timeout")))


def test_W8_that_a_witness_lacks_an_entry_ends_no_ledger() -> None:
    """R3: only bookies of the write set can say that an entry has no ack quorum."""
    recovery = reading(b3=HOLDS_IT, b4=HOLDS_IT)
    recovery.read_answered(2, page())
    recovery.read_answered(3, page())
    recovery.read_failed(0, "timeout")
    assert isinstance(failure(recovery.read_failed(1, "timeout")), LedgerRecoveryFailed)
