"""A note of a fragment says all that the ledger's record says, but of the other fragments and of what changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.errors import BadRecord
from metadata.records import records_pb2 as pb
from metadata.records.ledger_record import (
    AcceptedLoss,
    BookieRef,
    DigestType,
    Fragment,
    Lacking,
    LedgerRecord,
    LedgerState,
    Shape,
)
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import FragmentNote, NewerNote, notes_for

A, B, C, D = (BookieRef(name, f"i-{name}") for name in "abcd")
OPEN = LedgerRecord(
    7,
    Shape(3, 3, 2),
    (Fragment(0, (A, B, C), number=1), Fragment(10, (A, B, D), 200, (Lacking(1, 10, 12),), number=2)),
    digest_type=DigestType.HMAC_SHA256,
    custom_metadata={"owner": b"us", "": bytes(range(256))},
    created_ms=1234,
    verifier=bytes(range(32)),
    password_salt=b"salt",
    identity=bytes(range(16)),
    nonce=b"nonce",
    reserved=True,
    also_at=(C,),
    written_at=17,
)


def read_back(record: LedgerRecord, fragment: Fragment) -> FragmentNote:
    note = FragmentNote.of(record, fragment)
    assert fragment_note.decode(fragment_note.encode(note)) == note
    assert fragment_note.encode_of(record, fragment) == fragment_note.encode(note)
    return note


def test_a_note_has_the_fragment_and_what_does_not_change_of_the_ledger() -> None:
    note = read_back(OPEN, OPEN.fragments[1])
    assert note.fragment == Fragment(10, (A, B, D), 200, number=2)
    told = note.ledger
    assert (told.ledger_id, told.identity, told.shape) == (7, OPEN.identity, OPEN.shape)
    assert (told.digest_type, told.verifier, told.password_salt) == (
        DigestType.HMAC_SHA256,
        OPEN.verifier,
        b"salt",
    )
    assert (told.custom_metadata, told.created_ms) == (OPEN.custom_metadata, 1234)
    assert (told.nonce, told.reserved, told.also_at, told.written_at) == (b"", False, (), 0)


def test_the_note_of_a_closed_ledger_tells_its_end_and_by_whose_word_it_was_closed() -> None:
    loss = AcceptedLoss(99, "me", 14, (D,), (D,))
    closed = replace(OPEN.closed(15, 300), closed_ms=5678, accepted_loss=loss)
    told = read_back(closed, closed.fragments[1]).ledger
    assert (told.state, told.last_entry, told.length_bytes) == (LedgerState.CLOSED, 15, 300)
    assert (told.closed_ms, told.accepted_loss) == (5678, loss)


def test_a_ledger_in_recovery_is_noted_as_an_open_one() -> None:
    assert read_back(OPEN.in_recovery(3), OPEN.fragments[0]).ledger.state is LedgerState.OPEN


def test_a_bookie_keeps_a_note_of_each_fragment_that_names_it() -> None:
    assert [note.fragment.first_entry for note in notes_for(OPEN, A)] == [0, 10]
    assert [note.fragment.first_entry for note in notes_for(OPEN, D)] == [10]
    assert not [*notes_for(OPEN, BookieRef("d", "another incarnation"))]


def test_of_one_fragment_the_later_change_and_then_the_end_is_newer() -> None:
    changed = OPEN.changed_ensemble(Fragment(10, (A, C, D), 200))
    closed = changed.closed(10, 220)
    notes = [FragmentNote.of(record, record.fragments[1]) for record in (OPEN, changed, closed)]
    headlines = [fragment_note.headline(fragment_note.encode(note)) for note in notes]
    assert headlines == [note.headline for note in notes]
    assert [tuple(one) for one in headlines] == [(10, 2, False), (10, 3, False), (10, 3, True)]
    for n, one in enumerate(headlines):
        assert [one.is_older_than(other) for other in headlines] == [m >= n for m in range(3)]


def test_fragments_behind_one_without_a_number_have_none() -> None:
    old = replace(OPEN, fragments=(Fragment(0, (A, B, C)),))
    assert [one.number for one in old.changed_ensemble(Fragment(5, (A, B, D))).fragments] == [0, 0]


def test_a_note_of_a_newer_program_is_told_from_one_that_cannot_be_trusted() -> None:
    message = pb.FragmentNote.FromString(fragment_note.encode(FragmentNote.of(OPEN, OPEN.fragments[0])))
    message.format_version += 1
    with pytest.raises(NewerNote):
        fragment_note.decode(message.SerializeToString())
    message.format_version -= 1
    message.ledger.format_version += 1
    with pytest.raises(NewerNote):
        fragment_note.decode(message.SerializeToString())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda m: m.ledger.ClearField("fragments"),
        lambda m: m.ledger.fragments.add(first_entry=9),
        lambda m: setattr(m.ledger, "identity", b"short"),
        lambda m: setattr(m, "ledger_id", -1),
        lambda m: setattr(m.ledger.fragments[0], "first_entry", -5),
        lambda m: setattr(m.ledger, "state", pb.IN_RECOVERY),
        lambda m: setattr(m.ledger, "ensemble_size", 2),
    ],
)
def test_a_note_that_makes_no_ledger_is_refused(spoil: object) -> None:
    assert callable(spoil)
    message = pb.FragmentNote.FromString(fragment_note.encode(FragmentNote.of(OPEN, OPEN.fragments[0])))
    spoil(message)
    with pytest.raises(BadRecord):
        fragment_note.decode(message.SerializeToString())


def test_bytes_that_are_no_note_are_refused() -> None:
    for junk in (b"", b"\xff\xff\xff", b"note"):
        with pytest.raises(BadRecord):
            fragment_note.decode(junk)
