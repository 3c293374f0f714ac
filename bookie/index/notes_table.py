"""A bookie's notes about the ledgers that it serves, kept in addition to entries: one for each fragment
(`FragmentNote`).

    notes    (ledger, first entry) → the note, encoded

Notes come from the log, like frames, and move into LMDB with the checkpoint that covers them. Only the newest note of a
fragment is kept: an ensemble change may begin at the same entry as the previous one, and a note that contains the
ledger's end is newer than one that does not.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator

import lmdb

from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import Headline

from ..wire.messages import NO_NOTE, HeldNote
from .local_ledger_state import LocalLedgerState
from .summed_table import Meta, SummedTable, readable

_KEY = struct.Struct(">QQ")
_LEDGER = struct.Struct(">Q")

NOTES_PER_PAGE_MAX = 1000
NOTES_PAGE_BYTES_MAX = 1024 * 1024
"""Maximum size in bytes of one page of notes; a larger note is the only one on its page."""


_Note = tuple[Headline, bytes]
"""A note: the headline, which describes the fragment, and the encoded note."""


def _read(note: bytes) -> _Note:
    return fragment_note.headline(note), note


def _newer(held: _Note | None, new: _Note) -> _Note:
    """Returns the newer of two notes on the same fragment; `new` if they are equal."""
    return new if held is None or held[0].is_older_than(new[0]) else held


class NotesTable:
    """An LMDB table of the index, and the notes that are not in the table yet. Notes may be added only on the event
    loop's thread."""

    def __init__(self, env: lmdb.Environment, meta: Meta, ledgers: SummedTable) -> None:
        self._env = env
        self._ledgers = ledgers
        self.table = SummedTable(env, b"notes", meta)
        self._recent: dict[int, dict[int, _Note]] = {}
        self._moving: dict[int, dict[int, _Note]] = {}

    @property
    def has_changes(self) -> bool:
        return bool(self._recent)

    def add(self, ledger_id: int, note: bytes) -> None:
        """Adds a note, unless a newer note of its fragment is already known."""
        new = _read(note)
        notes, first_entry = self._recent.setdefault(ledger_id, {}), new[0].first_entry
        notes[first_entry] = _newer(notes.get(first_entry), new)

    def of(self, ledger_id: int) -> dict[int, bytes]:
        """Returns the ledger's notes, keyed by first entry."""
        return {first_entry: note for first_entry, (_, note) in self._of(ledger_id).items()}

    def _of(self, ledger_id: int) -> dict[int, _Note]:
        with readable(), self._env.begin() as txn:
            found = {first: _read(note) for first, note in self._rows(txn, ledger_id, 0)}
        for notes in (self._moving.get(ledger_id, {}), self._recent.get(ledger_id, {})):
            for first_entry, note in notes.items():
                found[first_entry] = _newer(found.get(first_entry), note)
        return found

    def bytes_of(self, ledger_ids: Iterable[int]) -> int:
        """Returns the size of these ledgers' notes, as of the last checkpoint. Callable from any thread."""
        with readable(), self._env.begin() as txn:
            return sum(len(note) for one in ledger_ids for _, note in self._rows(txn, one, 0))

    def latest(self, ledger_id: int) -> Headline | None:
        """Returns the headline of the note with the highest first entry among this bookie's notes on the ledger; None
        if there are no notes on it."""
        held = self._of(ledger_id)
        return held[max(held)][0] if held else None

    def page(self, first_ledger: int, first_entry: int) -> tuple[tuple[HeldNote, ...], bool]:
        """Returns one page of notes as of the last checkpoint, beginning at this ledger and entry, and whether it is
        the last page. Callable from any thread.

        Together, the pages contain at least one note for every ledger: an empty one if the bookie has none for the
        ledger.
        """
        found: list[HeldNote] = []
        size = 0
        with readable(), self._env.begin() as txn:
            for one in self._held(txn, first_ledger, first_entry):
                size += len(one.note)
                if found and (size > NOTES_PAGE_BYTES_MAX or len(found) == NOTES_PER_PAGE_MAX):
                    return tuple(found), False
                found.append(one)
        return tuple(found), True

    def _held(self, txn: lmdb.Transaction, first_ledger: int, first_entry: int) -> Iterator[HeldNote]:
        cursor = txn.cursor(self._ledgers.db)
        if not cursor.set_range(_LEDGER.pack(first_ledger)):
            return
        for key, row in cursor:
            ledger_id = int(_LEDGER.unpack(key)[0])
            identity = LocalLedgerState.decode(ledger_id, bytes(row)).identity or b""
            begin = first_entry if ledger_id == first_ledger else 0
            has_notes = bool(begin)
            for first, note in self._rows(txn, ledger_id, begin):
                has_notes = True
                yield HeldNote(ledger_id, first, identity, note)
            if not has_notes:
                yield HeldNote(ledger_id, 0, identity, NO_NOTE)

    def _rows(self, txn: lmdb.Transaction, ledger_id: int, first_entry: int) -> Iterator[tuple[int, bytes]]:
        cursor = txn.cursor(self.table.db)
        if not cursor.set_range(_KEY.pack(ledger_id, first_entry)):
            return
        for key, note in cursor:
            owner, first = _KEY.unpack(key)
            if owner != ledger_id:
                return
            yield first, bytes(note)

    # --- checkpoints, in the caller's transaction -------------------------------------------

    def begin(self) -> None:
        self._moving, self._recent = self._recent, {}

    def put_all(self, txn: lmdb.Transaction) -> None:
        """Writes the notes that `begin` has set aside."""
        for ledger_id, notes in self._moving.items():
            for first_entry, note in notes.items():
                key = _KEY.pack(ledger_id, first_entry)
                held = self.table.get(txn, key)
                if held is None or _newer(_read(held), note) is note:
                    self.table.put(txn, key, note[1])

    def end(self) -> None:
        self._moving = {}

    def abandon(self) -> None:
        """Restores the notes that `begin` has set aside; the next checkpoint writes them."""
        moving, self._moving = self._moving, {}
        for ledger_id, notes in moving.items():
            recent = self._recent.setdefault(ledger_id, {})
            for first_entry, note in notes.items():
                recent[first_entry] = _newer(note, recent.get(first_entry, note))

    def forget(self, txn: lmdb.Transaction, ledger_ids: Collection[int]) -> None:
        """Deletes the rows of these ledgers."""
        for ledger_id in ledger_ids:
            for first_entry in [first for first, _ in self._rows(txn, ledger_id, 0)]:
                self.table.delete(txn, _KEY.pack(ledger_id, first_entry))

    def forget_recent(self, ledger_id: int) -> None:
        self._recent.pop(ledger_id, None)
