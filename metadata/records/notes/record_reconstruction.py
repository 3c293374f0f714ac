"""Rebuilds a ledger's record from the notes that bookies keep about the ledger, if the record in the metadata is older
than the notes, or is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ..ledger_record import ENTRY_ID_MAX, BookieRef, Ensemble, Fragment, Lacking, LedgerRecord, LedgerState
from .fragment_note import FragmentNote, Headline


class NotedBy(NamedTuple):
    """A note, and the bookie that keeps it."""

    bookie: BookieRef
    note: FragmentNote


def reconcile(found: LedgerRecord | None, noted: Iterable[NotedBy]) -> LedgerRecord | None:
    """Returns the record that the metadata should have; None if `found` needs no change, or if nothing is known about
    the ledger.

    `noted`: notes for one ledger id. If the metadata has a ledger under that id, notes about other ledgers are ignored;
    if it has none, only notes about the ledger that was created last are used. The end of a closed ledger never
    changes. If the fragments' numbers show that the record lacks a fragment before its last one, that fragment is
    inserted. Raises ValueError for notes that fit no record.
    """
    ours = of_one_ledger(found, [*noted])
    if not ours:
        return None
    if found is None:
        return _made_again(ours)
    later = [one for one in ours if not found.is_closed and one.note.headline.is_ahead_of(found)]
    if not later and not any(_is_lacking(found, one.note.headline) for one in ours):
        copied = _with_copy(_called_back(found, ours) if found.has_no_ensembles else found, ours)
        return None if copied == found else copied
    brought_up = _brought_up(found, ours)
    if found.is_closed:
        return _with_copy(_with_doubt(brought_up, found.fragments), ours)
    return _with_copy(_with_doubt(_ended(brought_up, ours), found.fragments[:-1]), ours)


def _made_again(noted: Sequence[NotedBy]) -> LedgerRecord:
    """Rebuilds the record from the notes of one ledger, without metadata. It stays open if no bookie was notified of
    the ledger's end."""
    latest = max((one.note for one in noted), key=lambda note: note.headline[1:]).ledger
    fragments = _placed(_from_entry_0(_fragments(noted)))
    if not any(one.ensemble for one in fragments):  # all bookies that noted the ledger have dropped it since
        return replace(_last_moved(noted), fragments=fragments)
    opened = replace(
        latest,
        state=LedgerState.OPEN,
        last_entry=None,
        length_bytes=None,
        closed_ms=0,
        accepted_loss=None,
        cold=None,
        cold_version=0,
        fragments=fragments,
    )
    return _with_copy(_with_doubt(_ended(opened, noted)), noted)


def _called_back(found: LedgerRecord, noted: Sequence[NotedBy]) -> LedgerRecord:
    """If the notes show that a ledger in an object store has been recalled since its record was written, adds the
    bookies in the notes to the record, because the ledger's objects may be gone. Each bookie may lack everything until
    it has checked its copy."""
    if _last_moved(noted).cold_version <= found.cold_version:
        return found
    ensembles = {one.first_entry: one.ensemble for one in _fragments(noted)}
    known = next((one for one in ensembles.values() if one), ())
    placed = (replace(one, ensemble=ensembles.get(one.first_entry) or known) for one in found.fragments)
    return _with_doubt(replace(found, fragments=tuple(placed)))


def _with_copy(record: LedgerRecord, noted: Sequence[NotedBy]) -> LedgerRecord:
    """Returns the record with the object-store copy that bookies noted last, if that note is newer than the record.
    Bookies note a copy before they drop their own copies (rule O2), and when they heal."""
    last = _last_moved(noted)
    if not record.is_closed or last.cold_version <= record.cold_version or last.cold == record.cold:
        return record
    return replace(record, cold=last.cold, cold_version=last.cold_version)


def _last_moved(noted: Sequence[NotedBy]) -> LedgerRecord:
    """Returns the noted record with the latest information on where the ledger is stored."""
    return max((one.note.ledger for one in noted), key=lambda ledger: ledger.cold_version)


def _is_lacking(found: LedgerRecord, noted: Headline) -> bool:
    """Returns whether the noted fragment is missing from the record and belongs before a fragment that the record has.
    This happens if no bookie that was asked earlier reported the fragment."""
    return any(
        one.number < noted.number < following.number
        and one.first_entry <= noted.first_entry < following.first_entry
        for one, following in pairwise(found.fragments)
    )


def of_one_ledger(found: LedgerRecord | None, noted: Sequence[NotedBy]) -> list[NotedBy]:
    """Returns, from the notes for one ledger id, those about the ledger that the metadata has, or should have, under
    that id."""
    if not noted:
        return []
    if found is not None:
        identity = found.identity
    else:
        identity = max(
            (one.note.ledger for one in noted), key=lambda it: (it.created_ms, it.identity)
        ).identity
    return [one for one in noted if one.note.identity == identity]


def _brought_up(found: LedgerRecord, noted: Sequence[NotedBy]) -> LedgerRecord:
    """Returns the record with the fragments that it lacked. Bookies that have reported are removed from `also_at`."""
    by_first = {one.first_entry: one for one in _fragments(noted)}
    for one in found.fragments:
        known = by_first.get(one.first_entry)
        if known is None or known.number <= one.number:
            by_first[one.first_entry] = one
    end = found.confirmed_through if found.is_closed else ENTRY_ID_MAX
    turns = _in_turn(by_first.values())
    fragments = _placed(tuple(one for one in turns if one.first_entry <= max(end, 0)))
    heard = {one.bookie for one in noted}
    also_at = tuple(one for one in found.also_at if one not in heard and one not in fragments[-1].ensemble)
    parted = replace(found, fragments=fragments, also_at=also_at, written_at=0)
    whole = tuple(one if last is None else one.lacking_through(last) for one, last in parted.spans())
    return replace(parted, fragments=whole)


def _ended(record: LedgerRecord, noted: Sequence[NotedBy]) -> LedgerRecord:
    """Returns the record; closes it if a bookie was notified of the ledger's end."""
    ends = [one.note for one in noted if one.note.ledger.is_closed]
    if not ends:
        return record
    end = max(ends, key=lambda note: note.fragment.number).ledger
    assert end.last_entry is not None and end.length_bytes is not None
    closed = record.closed(end.last_entry, end.length_bytes)
    return replace(closed, closed_ms=end.closed_ms, accepted_loss=end.accepted_loss)


def _with_doubt(record: LedgerRecord, settled: Collection[Fragment] = ()) -> LedgerRecord:
    """Marks every copy in fragments that are no longer being written as possibly lacking entries, because only the lost
    records listed which entries the copies lack. Skips fragments that the metadata knew completely. A bookie that heals
    checks its copy, and fetches missing entries."""
    fragments = []
    for one, last in record.spans():
        if last is not None and last >= one.first_entry and one not in settled:
            for n in range(len(one.ensemble)):
                one = one.with_lacking(n, one.first_entry, last)
        fragments.append(one)
    return replace(record, fragments=tuple(fragments))


def _fragments(noted: Sequence[NotedBy]) -> list[Fragment]:
    """Returns the fragments in order, each according to the newest notes about it."""
    of_first: defaultdict[int, list[NotedBy]] = defaultdict(list)
    for one in noted:
        of_first[one.note.fragment.first_entry].append(one)
    return _in_turn([_newest(of_one) for of_one in of_first.values()])


def _in_turn(fragments: Iterable[Fragment]) -> list[Fragment]:
    """Sorts fragments by first entry; leaves out fragments that a later change has replaced."""
    kept: list[Fragment] = []
    for one in sorted(fragments, key=lambda fragment: fragment.first_entry):
        if not kept or not one.number or one.number > kept[-1].number:
            kept.append(one)
    return kept


def _newest(noted: Sequence[NotedBy]) -> Fragment:
    """Returns the fragment according to the notes written after its last change; these differ only in copies that were
    moved since."""
    number = max(one.note.fragment.number for one in noted)
    last = [one for one in noted if one.note.fragment.number == number]
    last = [one for one in last if one.note.fragment.ensemble] or last[
        :1
    ]  # the note of a bookie that dropped it lists no bookies
    return replace(last[0].note.fragment, ensemble=_ensemble(last))


def _ensemble(noted: Sequence[NotedBy]) -> Ensemble:
    """Returns, for each position, a bookie whose own note places it there, or otherwise the bookie listed there by most
    notes."""
    itself = {one.bookie for one in noted}
    named = [
        Counter(position) for position in zip(*(one.note.fragment.ensemble for one in noted), strict=True)
    ]
    chosen: list[BookieRef] = []
    for counts in named:
        best = sorted(counts, key=lambda bookie: (bookie not in itself, -counts[bookie], bookie))
        chosen += _first_but(best, chosen)
    return tuple(chosen) if len(chosen) == len(named) else noted[0].note.fragment.ensemble


def _placed(fragments: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
    """If all bookies that noted a fragment have dropped it, lists the bookies of another fragment for that fragment,
    although they lack its entries, because a record lists bookies in all fragments or in none."""
    known = next((one.ensemble for one in fragments if one.ensemble), ())
    return tuple(one if one.ensemble else replace(one, ensemble=known) for one in fragments)


def _first_but(best: Iterable[BookieRef], taken: Collection[BookieRef]) -> list[BookieRef]:
    names = {bookie.bookie_id for bookie in taken}
    return [bookie for bookie in best if bookie.bookie_id not in names][:1]


def _from_entry_0(fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    """If the first known fragment does not begin at entry 0, adds a fragment for the entries before it, because no note
    describes them. The added fragment has no number, and its copies lack everything."""
    first = fragments[0]
    if first.first_entry == 0:
        return tuple(fragments)
    lacking = tuple(Lacking(n, 0, first.first_entry - 1) for n in range(len(first.ensemble)))
    return (Fragment(0, first.ensemble, lacking=lacking), *fragments)
