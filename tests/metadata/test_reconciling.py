"""Records are made again from what bookies have noted, where the metadata is older than the ledgers or has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.records.cold.cold_copy import ColdCopy, new_key
from metadata.records.ledger_record import (
    AcceptedLoss,
    BookieRef,
    Fragment,
    Lacking,
    LedgerRecord,
    LedgerState,
    Shape,
)
from metadata.records.notes.fragment_note import FragmentNote, notes_for
from metadata.records.notes.record_reconstruction import NotedBy, reconcile

A, B, C, D, E = (BookieRef(name, f"i-{name}") for name in "abcde")
CREATED = LedgerRecord(
    7,
    Shape(3, 3, 2),
    (Fragment(0, (A, B, C), number=1),),
    custom_metadata={"owner": b"us"},
    created_ms=1234,
    verifier=bytes(range(32)),
    password_salt=b"salt",
    identity=bytes(range(16)),
)
CHANGED = CREATED.changed_ensemble(Fragment(10, (A, B, D), 200))
AGAIN = CHANGED.changed_ensemble(Fragment(10, (A, E, D), 200))
CLOSED = replace(AGAIN.closed(14, 280), closed_ms=5678)


def kept(record: LedgerRecord, *bookies: BookieRef) -> list[NotedBy]:
    """What these bookies note of this record."""
    return [NotedBy(bookie, note) for bookie in bookies for note in notes_for(record, bookie)]


def doubted(record: LedgerRecord, *fragments: int) -> LedgerRecord:
    """Every copy of these fragments may lack entries."""
    for n in fragments:
        one, last = [*record.spans()][n]
        assert last is not None
        for position in range(3):
            record = record.with_lacking(position, one.first_entry, last)
    return record


EVERYBODY = [
    *kept(CREATED, B, C),  # b left with the second change, c with the first
    *kept(AGAIN, A),
    *kept(CHANGED, D),
    *kept(AGAIN, D, E),
]


@pytest.mark.parametrize("record", [CREATED, CHANGED, AGAIN, CLOSED])
def test_a_record_that_is_as_new_as_what_was_noted_stays_as_it_is(record: LedgerRecord) -> None:
    assert reconcile(record, kept(record, A, B, C, D, E)) is None
    assert reconcile(record, []) is None


@pytest.mark.parametrize("older", [CREATED, CHANGED, CREATED.in_recovery(17)])
def test_an_older_record_gets_the_fragments_that_it_lacks(older: LedgerRecord) -> None:
    now = reconcile(older, EVERYBODY)
    doubt = range(len(older.fragments) - 1, 1)  # what was written when the copy was made, and is no more
    assert now == doubted(replace(AGAIN, state=older.state), *doubt)


def test_a_ledger_of_which_the_end_was_told_is_closed_there() -> None:
    for older in (CREATED, CHANGED, AGAIN, AGAIN.in_recovery(3)):
        doubt = range(len(older.fragments) - 1, 2)
        assert reconcile(older, [*EVERYBODY, *kept(CLOSED, E)]) == doubted(CLOSED, *doubt)


def test_a_fragment_behind_the_end_held_nothing() -> None:
    further = AGAIN.changed_ensemble(Fragment(15, (A, B, D), 280))
    told = replace(further.closed(14, 280), closed_ms=5678)
    assert told.fragments == AGAIN.fragments
    assert reconcile(CREATED, [*kept(further, A), *kept(told, E)]) == doubted(told, 0, 1)


def test_a_closed_ledger_stays_closed_at_its_entry() -> None:
    elsewhere = replace(CREATED.closed(4, 80), closed_ms=99)
    assert reconcile(elsewhere, [*EVERYBODY, *kept(CLOSED, A)]) is None


def test_what_the_metadata_knew_of_a_fragment_that_was_over_stays_as_it_is() -> None:
    known = replace(AGAIN, fragments=(CREATED.fragments[0].with_lacking(2, 3, 4), AGAIN.fragments[1]))
    later = known.changed_ensemble(Fragment(20, (A, B, C), 400))
    now = reconcile(known, kept(later, A))
    assert now == doubted(later, 1)


def test_copies_may_lack_entries_and_those_who_were_heard_need_not_be_named() -> None:
    lacking = replace(
        CREATED, fragments=(replace(CREATED.fragments[0], lacking=(Lacking(1, 2, 3),)),), also_at=(D, E)
    )
    now = reconcile(lacking, kept(CHANGED, A))
    assert now is not None
    assert now.fragments == (doubted(CHANGED, 0).fragments[0], CHANGED.fragments[1])
    assert now.also_at == (E,)  # who has told nothing, and whom the last fragment does not name


def test_notes_of_another_ledger_of_that_id_count_for_nothing() -> None:
    another = replace(CREATED, identity=b"another identity", created_ms=2000)
    assert reconcile(another, EVERYBODY) is None
    newer = another.changed_ensemble(Fragment(3, (A, B, E), 60))
    assert reconcile(another, [*EVERYBODY, *kept(newer, E)]) == doubted(newer, 0)
    assert reconcile(None, [*EVERYBODY, *kept(another, A)]) == another, "the one that was made last"


def test_a_ledger_that_the_metadata_lost_is_made_again_with_all_that_it_was() -> None:
    for lost, ended in (CREATED, 0), (CHANGED, 1), (AGAIN, 1), (CLOSED, 2):
        assert reconcile(None, kept(lost, A, B, C, D, E)) == doubted(lost, *range(ended))


def test_it_is_open_again_where_nobody_was_told_its_end_and_closed_by_whose_word_it_was() -> None:
    opened = reconcile(None, EVERYBODY)
    assert opened is not None and opened.state is LedgerState.OPEN
    loss = AcceptedLoss(99, "me", 14, (D,), (D,))
    given_up = replace(CLOSED, accepted_loss=loss)
    assert reconcile(None, [*EVERYBODY, *kept(given_up, E)]) == doubted(given_up, 0, 1)


def test_where_the_beginning_is_not_noted_copies_of_it_lack_everything_until_a_bookie_tells_of_it() -> None:
    made = reconcile(None, kept(AGAIN, E))
    assert made is not None
    unknown, last = made.fragments
    assert (unknown.number, unknown.first_entry) == (0, 0) and last == AGAIN.fragments[1]
    assert unknown.lacking == tuple(Lacking(n, 0, 9) for n in range(3))
    for known in (made, made.in_recovery(), made.closed(14, 280)):
        now = reconcile(known, kept(AGAIN, A))
        assert now is not None
        assert now.fragments == (doubted(AGAIN, 0).fragments[0], last)
        assert reconcile(now, kept(AGAIN, A, E)) is None


def test_of_copies_that_were_moved_who_says_so_of_itself_is_named() -> None:
    ended = CREATED.closed(9, 180)
    moved = ended.moved(0, C, D)
    for noted, ensemble in (
        ([*kept(ended, A, B), *kept(moved, D)], (A, B, D)),
        ([*kept(ended, B), *kept(moved, A)], (A, B, C)),
        ([*kept(ended, C), *kept(moved, A, B)], (A, B, C)),
    ):
        made = reconcile(None, noted)
        assert made is not None and made.fragments[0].ensemble == ensemble


def test_fragments_without_numbers_go_by_their_first_entries() -> None:
    old = replace(CREATED, fragments=(Fragment(0, (A, B, C)), Fragment(10, (A, B, D), 200)))
    older = replace(old, fragments=old.fragments[:1])
    assert reconcile(older, kept(old, A, D)) == doubted(old, 0)
    assert reconcile(old, kept(old, A, D)) is None


@pytest.mark.parametrize("closed", [False, True])
def test_a_fragment_in_the_middle_is_put_in_once_a_bookie_tells_of_it(closed: bool) -> None:
    """Who told of the last one only was not in it, and the others of its ensemble were silent."""
    last = CHANGED.changed_ensemble(Fragment(20, (B, E, D), 400))
    known = reconcile(CREATED, kept(last, E))
    assert known is not None
    assert [one.number for one in known.fragments] == [1, 3]
    if closed:
        known = known.closed(24, 480)
    now = reconcile(known, kept(last, A, D))
    assert now is not None
    assert [(one.number, one.first_entry, one.ensemble) for one in now.fragments] == [
        (one.number, one.first_entry, one.ensemble) for one in last.fragments
    ]
    assert now.last_entry == known.last_entry
    assert now.fragments[1].lacking == tuple(Lacking(n, 10, 19) for n in range(3))
    assert reconcile(now, kept(last, A, B, C, D, E)) is None


COPY = ColdCopy("s3://archive", new_key(7, bytes(16)), (0,), 100, 9000)
STORED = CLOSED.uploading(COPY)
TAKEN_OFF = STORED.without_copies()


def dropped(record: LedgerRecord, *bookies: BookieRef) -> list[NotedBy]:
    """What these note of a ledger that they have dropped, because it is in an object store only."""
    return [NotedBy(bookie, FragmentNote.of(record, one)) for bookie in bookies for one in record.fragments]


def test_what_no_bookie_has_any_more_is_made_again_with_its_copy_in_the_object_store() -> None:
    assert reconcile(None, dropped(TAKEN_OFF, A, E)) == replace(TAKEN_OFF, nonce=b"")


def test_where_some_have_dropped_it_their_notes_say_where_the_copy_is() -> None:
    made = reconcile(None, [*kept(CLOSED, A, D), *dropped(TAKEN_OFF, E)])
    assert made is not None and made.cold == COPY and made.is_closed
    assert all(one.ensemble for one in made.fragments) and made.is_on_no_bookie, (
        "any copy may lack everything"
    )


@pytest.mark.parametrize(
    "found", [AGAIN, CLOSED, CHANGED, replace(CLOSED, cold=replace(COPY, part_starts=()))]
)
def test_older_metadata_is_told_of_the_copy(found: LedgerRecord) -> None:
    made = reconcile(found, [*kept(CLOSED, A), *dropped(TAKEN_OFF, D, E)])
    assert made is not None and made.is_closed and made.cold == COPY
    assert made.last_entry == CLOSED.last_entry


def test_metadata_that_knows_the_copy_stays_as_it_is() -> None:
    assert reconcile(TAKEN_OFF, dropped(TAKEN_OFF, A, D, E)) is None
    assert reconcile(STORED, [*kept(CLOSED, A), *dropped(TAKEN_OFF, D, E)]) is None


def test_a_ledger_that_was_recalled_since_is_left_to_the_bookies_that_noted_it() -> None:
    """Its objects may be gone; and who is not named drops what it has."""
    recalled = TAKEN_OFF.recalled((A, B, C))
    made = reconcile(TAKEN_OFF, [*kept(recalled, A, B, C), *dropped(TAKEN_OFF, D, E)])
    assert made is not None and made.cold == COPY and made.is_on_no_bookie
    assert all(one.ensemble == (A, B, C) for one in made.fragments)


ELSEWHERE = ColdCopy("s3://other", new_key(7, b"1" * 16), (0,), 100, 8000)
"""A later copy, by a clock that is behind."""


def test_a_later_copy_replaces_one_that_was_recalled_since() -> None:
    on_bookies = TAKEN_OFF.recalled((A, B, C)).forgetting_copy()
    later = on_bookies.uploading(ELSEWHERE).without_copies()
    made = reconcile(TAKEN_OFF, dropped(later, A, B, C))
    assert made is not None and made.cold == ELSEWHERE
    assert reconcile(made, dropped(later, A, B, C)) is None


def test_metadata_that_knows_of_the_recall_stays_as_it_is() -> None:
    """Notes of bookies that healed, and of those that have dropped the ledger before, name the deleted copy."""
    recalled = TAKEN_OFF.recalled((A, B, C))
    healed = replace(recalled, fragments=tuple(replace(one, lacking=()) for one in recalled.fragments))
    noted = [*kept(recalled, A, B, C), *dropped(TAKEN_OFF, D, E)]
    assert reconcile(healed.forgetting_copy(), noted) is None
    assert reconcile(healed, noted) is None
    copied = CLOSED.uploading(COPY)
    assert reconcile(copied, kept(CLOSED, A, B, C)) is None


def test_a_copy_that_was_forgotten_since_is_not_named_again() -> None:
    recalled = TAKEN_OFF.recalled((A, B, C)).forgetting_copy()
    made = reconcile(TAKEN_OFF, kept(recalled, A, B, C))
    assert made is not None and made.cold is None
    assert all(one.ensemble == (A, B, C) for one in made.fragments)
