"""A ledger's record, made again from what bookies noted of its fragments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from metadata.records.fragment import BookieRef, Ensemble, Fragment, Lacking
from metadata.records.ledger_record import LedgerRecord
from metadata.records.notes.fragment_note import FragmentNote


@dataclass(frozen=True, slots=True)
class Noted:
    """What one bookie noted of a fragment."""

    by: BookieRef
    note: FragmentNote


@dataclass(frozen=True, slots=True)
class RebuiltLedger:
    """A record, and what could not be known of the ledger."""

    record: LedgerRecord
    doubts: tuple[str, ...] = ()


def rebuilt_ledger(noted: Sequence[Noted]) -> RebuiltLedger:
    """The record of one ledger, from all that was noted under its id. Raises ValueError where it fits nothing.

    Of two ledgers under one id, as a store gives them that went back, the one is made that more bookies noted.
    """
    assert noted
    by_identity = Counter(one.note.identity for one in noted)
    identity, _ = max(by_identity.items(), key=lambda item: (item[1], item[0]))
    ours = [one for one in noted if one.note.identity == identity]
    end = _end_of(ours)
    fragments, doubts = _fragments_of(ours, end)
    if len(by_identity) > 1:
        doubts.append("another ledger has the same id, and is left out")
    latest = max(ours, key=lambda one: one.note.headline[1:]).note.ledger if end is None else end
    return RebuiltLedger(replace(latest, fragments=fragments), tuple(doubts))


def _end_of(noted: Iterable[Noted]) -> LedgerRecord | None:
    """What the record of a closed ledger said besides its fragments; None where nobody was told of an end."""
    closed = [one.note for one in noted if one.note.ledger.is_closed]
    return max(closed, key=lambda note: note.fragment.number).ledger if closed else None


def _fragments_of(noted: Sequence[Noted], end: LedgerRecord | None) -> tuple[tuple[Fragment, ...], list[str]]:
    found: list[Fragment] = []
    last_entry = None if end is None else end.last_entry
    for first_entry in sorted({one.note.fragment.first_entry for one in noted}):
        if found and last_entry is not None and first_entry > last_entry:
            break  # it holds nothing: an ensemble change of which nothing was confirmed
        found.append(_newest([one for one in noted if one.note.fragment.first_entry == first_entry]))
    doubts = list(_missing(noted, found))
    if found[0].first_entry > 0:
        nobody = tuple(Lacking.everything(n) for n in range(len(found[0].ensemble)))
        found.insert(0, Fragment(0, found[0].ensemble, lacking=nobody))
    return tuple(found), doubts


def _newest(noted: Sequence[Noted]) -> Fragment:
    """The fragment as it stood last. Its copies may have been moved since it was noted first: the ensemble counts that
    most of its own bookies know."""
    number = max(one.note.fragment.number for one in noted)
    latest = [one for one in noted if one.note.fragment.number == number]
    known: Counter[Ensemble] = Counter()
    for one in latest:
        known[one.note.fragment.ensemble] += one.by in one.note.fragment.ensemble
    ensemble, _ = max(known.items(), key=lambda item: (item[1], item[0]))
    return next(one.note.fragment for one in latest if one.note.fragment.ensemble == ensemble)


def _missing(noted: Iterable[Noted], found: Sequence[Fragment]) -> Iterator[str]:
    if found[0].first_entry > 0:
        yield f"nobody noted where the entries before {found[0].first_entry} are"
    numbers = {one.note.fragment.number for one in noted}
    lost = sorted({*range(1, max(numbers) + 1)} - numbers) if 0 not in numbers and min(numbers) == 1 else []
    if lost:
        yield f"nobody noted fragment {', '.join(map(str, lost))} of it, where some of the entries may be"
