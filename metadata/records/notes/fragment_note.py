"""A bookie's note about a ledger of which it holds a fragment. The note is kept with the entries, and is sufficient to
rebuild the ledger's record.

The writer sends the note with the first frame on each lane, and after an ensemble change with the next frame on every
lane. A bookie that heals a ledger takes the note from the record. The process that closes the ledger reports the end to
the ledger's last ensemble; a recovery also reports it to the bookies of each fragment that it created.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from google.protobuf.message import DecodeError

from ...errors import BadRecord
from .. import ledger_codec
from .. import records_pb2 as pb
from ..ledger_codec import fill_message, from_message, to_message
from ..ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState

FORMAT_VERSION = 1

LEDGER_VERSION_MAX = ledger_codec.FORMAT_VERSION

NOTE_BYTES_MAX = 256 * 1024
"""Maximum size of a note. Even custom metadata of the maximum size, split into the smallest possible pieces, is encoded
in less than three times its size."""


class NewerNote(BadRecord):
    """The note was written by a newer program: this one cannot read it, and may skip it."""


@dataclass(frozen=True, slots=True)
class FragmentNote:
    """`fragment`: the fragment as recorded, but without the ranges of entries that copies may lack. `ledger`: the
    record, open or closed, with this fragment only, as if the fragment began at entry 0."""

    fragment: Fragment
    ledger: LedgerRecord

    @classmethod
    def of(cls, record: LedgerRecord, fragment: Fragment) -> FragmentNote:
        """Returns the note about a fragment in this record."""
        whole = replace(fragment, lacking=())
        state = LedgerState.CLOSED if record.is_closed else LedgerState.OPEN
        alone = replace(
            record,
            state=state,
            fragments=(replace(whole, first_entry=0, length_before=0),),
            nonce=b"",
            reserved=False,
            also_at=(),
            written_at=0,
        )
        return cls(whole, alone)

    @property
    def ledger_id(self) -> int:
        return self.ledger.ledger_id

    @property
    def identity(self) -> bytes:
        return self.ledger.identity

    @property
    def headline(self) -> Headline:
        return Headline(self.fragment.first_entry, self.fragment.number, is_closed=self.ledger.is_closed)


class Headline(NamedTuple):
    """The fragment of a note, and whether the note contains the ledger's end."""

    first_entry: int
    number: int
    is_closed: bool

    def is_older_than(self, other: Headline) -> bool:
        """Returns whether `other`, a headline for the same ledger and first entry, replaces this one. An equal headline
        replaces it, too."""
        return self[1:] <= other[1:]

    def is_ahead_of(self, record: LedgerRecord) -> bool:
        """Returns whether this note is from a later state of the ledger than the record."""
        last = record.fragments[-1]
        if (self.is_closed and not record.is_closed) or self.first_entry > last.first_entry:
            return True
        return self.first_entry == last.first_entry and self.number > last.number > 0


def notes_for(record: LedgerRecord, bookie: BookieRef) -> Iterator[FragmentNote]:
    """Returns the notes that this bookie should keep according to the record: one for each fragment that lists the
    bookie."""
    return (FragmentNote.of(record, one) for one in record.fragments if bookie in one.ensemble)


def encode(note: FragmentNote) -> bytes:
    message = pb.FragmentNote(
        format_version=FORMAT_VERSION, ledger_id=note.ledger_id, ledger=to_message(note.ledger)
    )
    only = message.ledger.fragments[0]
    only.first_entry, only.length_before = note.fragment.first_entry, note.fragment.length_before
    return message.SerializeToString(deterministic=True)


def headline(value: bytes) -> Headline:
    """Returns the headline of a note that has already been decoded once. This takes a tenth of the time that decoding
    takes."""
    ledger = pb.FragmentNote.FromString(value).ledger
    (only,) = ledger.fragments
    return Headline(only.first_entry, only.number, is_closed=ledger.state == pb.CLOSED)


def encode_of(record: LedgerRecord, fragment: Fragment) -> bytes:
    """Encodes `FragmentNote.of(record, fragment)` without building it, to save time, because a writer does so for each
    ledger."""
    message = pb.FragmentNote()
    message.format_version, message.ledger_id = FORMAT_VERSION, record.ledger_id
    ledger = fill_message(message.ledger, record, (fragment,))
    ledger.nonce, ledger.reserved, ledger.written_at = b"", False, 0
    if record.also_at:
        ledger.ClearField("also_at")
    if fragment.lacking:
        ledger.fragments[0].ClearField("lacking")
    if not record.is_closed:
        ledger.state = pb.OPEN
    return message.SerializeToString(deterministic=True)


def check(value: bytes, ledger_id: int, identity: bytes, verifier: bytes) -> None:
    """Raises BadRecord if the value is not a note, or is the note of another ledger; NewerNote if a newer program wrote
    it. Decoding checks the rest."""
    try:
        message = pb.FragmentNote.FromString(value)
    except DecodeError as error:
        raise BadRecord("note", str(error)) from error
    ledger = message.ledger
    if message.format_version > FORMAT_VERSION or ledger.format_version > LEDGER_VERSION_MAX:
        raise NewerNote(
            "note", f"format version {message.format_version}; this program supports {FORMAT_VERSION}"
        )
    if len(ledger.fragments) != 1 or ledger.fragments[0].first_entry < 0:
        raise BadRecord("note", f"it describes {len(ledger.fragments)} fragments instead of one")
    if (message.ledger_id, ledger.identity, ledger.verifier) != (ledger_id, identity, verifier):
        raise BadRecord(
            "note", f"it belongs to a ledger other than ledger {ledger_id}, for which it was sent"
        )


def decode(value: bytes) -> FragmentNote:
    """Decodes a note. Raises BadRecord if it cannot be trusted; NewerNote if only a newer program can read it."""
    try:
        message = pb.FragmentNote.FromString(value)
        if message.format_version > FORMAT_VERSION or message.ledger.format_version > LEDGER_VERSION_MAX:
            raise NewerNote(
                "note", f"format version {message.format_version}; this program supports {FORMAT_VERSION}"
            )
        (only,) = message.ledger.fragments
        first_entry, length_before = only.first_entry, only.length_before
        only.first_entry = only.length_before = 0
        ledger = from_message(message.ledger_id, message.ledger)
        if (
            message.ledger_id < 0
            or first_entry < 0
            or length_before < 0
            or ledger.state is LedgerState.IN_RECOVERY
        ):
            raise ValueError(f"ledger {message.ledger_id} cannot have such a fragment at entry {first_entry}")
    except (DecodeError, ValueError, KeyError) as error:
        raise BadRecord("note", str(error)) from error
    fragment = replace(ledger.fragments[0], first_entry=first_entry, length_before=length_before)
    return FragmentNote(fragment, ledger)
