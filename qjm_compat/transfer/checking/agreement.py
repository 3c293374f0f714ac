"""Checks that all copies of a journal agree on one sequence of transactions. Does no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ledgers.protocol.quorum import majority

from .journal_findings import CopyFound, JournalFindings

JOURNAL = "journal"

FIRST_TXID = 1
"""The first txid of a new namespace."""


def check_agreement(
    found: JournalFindings, purged_below: Mapping[str, int], unknown: Collection[str] = ()
) -> None:
    """Adds to the findings all contradictions between copies, missing edits, and edits that too few acceptors have.

    `purged_below` maps each acceptor to the txid below which its segments were purged. The state of the acceptors in
    `unknown` is not known.
    """
    final: dict[int, list[CopyFound]] = defaultdict(list)
    for copy in found.copies:
        if copy.finalized:
            final[copy.first_txid].append(copy)
    ends = {first: _end_of(found, first, final[first]) for first in sorted(final)}
    _check_copies(found, [_lacking(found, final[first], purged_below, unknown) for first in ends])
    for first, last in ends.items():
        _check_layouts(found, f"segment {first}-{last}", final[first])
    open_copies = _in_progress(found.copies, max(ends.values(), default=0))
    _check_marks(found, open_copies)
    if open_copies:
        _check_layouts(found, f"segment {open_copies[0].first_txid} (in progress)", open_copies)
    spans = [*ends.items(), *_span(open_copies)]
    _check_continuity(found, spans)
    found.purged_below = min(purged_below.values(), default=0)
    if spans:
        _check_beginning(found, spans[0][0], max(purged_below.values(), default=0))
        found.first_txid, found.last_txid, found.segments = spans[0][0], spans[-1][1], len(spans)


def _end_of(found: JournalFindings, first: int, copies: Sequence[CopyFound]) -> int:
    """Returns the last txid of a finalized segment, and checks that its copies have the same end and the same edits."""
    ends = sorted({copy.last_txid for copy in copies})
    if len(ends) != 1:
        found.problem(f"segment {first}", f"it is finalized with different ends: {_describe_spans(copies)}")
    elif len({copy.digest for copy in copies if copy.digest is not None}) > 1:
        names = ", ".join(copy.acceptor for copy in copies)
        found.problem(f"segment {first}-{ends[0]}", f"the copies of {names} hold different edits")
    return ends[-1]


@dataclass(frozen=True, slots=True)
class _Lacking:
    """The acceptors that have not finalized a segment that is finalized elsewhere, and the number of acceptors that may
    have the whole segment."""

    first: int
    last: int
    names: tuple[str, ...]
    copies: int


def _lacking(
    found: JournalFindings,
    final: Sequence[CopyFound],
    purged_below: Mapping[str, int],
    unknown: Collection[str],
) -> _Lacking:
    """Finds the acceptors that lack a segment. An acceptor that was about to finalize it counts as having it; one that
    was not checked may have it."""
    first, last = final[0].first_txid, max(copy.last_txid for copy in final)
    epochs = {copy.writer_epoch for copy in final}
    there = {copy.acceptor for copy in final} | {name for name, txid in purged_below.items() if last < txid}
    about_to = {
        copy.acceptor
        for copy in found.copies
        if copy.first_txid == first and copy.last_txid >= last and copy.writer_epoch in epochs
    }
    excused = {*unknown, *(name for name, start in found.lost_copies if start == first)}
    names = tuple(name for name in found.acceptors if name not in there and name not in excused)
    return _Lacking(first, last, names, len(there | about_to | set(unknown)))


def _check_copies(found: JournalFindings, segments: Sequence[_Lacking]) -> None:
    """Checks that a majority has finalized each segment before the next one begins, and that a majority would still
    have it after the loss of one acceptor."""
    needed = majority(tuple(range(len(found.acceptors)))).needed

    def kind(one: _Lacking) -> tuple[tuple[str, ...], bool, bool]:
        is_whole = one.copies == len(found.acceptors)
        return one.names, one.copies > needed or is_whole, one.copies >= needed

    for (names, is_safe, has_majority), group in groupby(segments, kind):
        if not names:
            continue
        lacked = list(group)
        where, them = _where(lacked), "it" if len(lacked) == 1 else "them"
        what = f"{_do_not(names)} have {them} finalized"
        sync = f"`bookledger journal sync` copies {them}"
        if is_safe:
            found.notes.append(f"{where}: {what}")
        elif has_majority:
            found.problem(where, f"{what}: with one more acceptor lost no majority would have {them}; {sync}")
        else:
            found.problem(where, f"no majority has {them}: {what}; {sync}")


def _do_not(names: Sequence[str]) -> str:
    return f"acceptor {names[0]} does not" if len(names) == 1 else f"acceptors {', '.join(names)} do not"


def _where(segments: Sequence[_Lacking]) -> str:
    first, last = segments[0], segments[-1]
    if first is last:
        return f"segment {first.first}-{first.last}"
    return f"{len(segments)} segments, {first.first}-{first.last} to {last.first}-{last.last}"


def _in_progress(copies: Sequence[CopyFound], finalized_end: int) -> list[CopyFound]:
    """Returns the relevant copies of the segment in progress: those of the latest segment, from its latest writer."""
    behind = [c for c in copies if not c.finalized and c.first_txid > finalized_end]
    if not behind:
        return []
    first = max(copy.first_txid for copy in behind)
    epoch = max(copy.writer_epoch for copy in behind if copy.first_txid == first)
    return [c for c in behind if c.first_txid == first and c.writer_epoch == epoch]


def _check_marks(found: JournalFindings, copies: Sequence[CopyFound]) -> None:
    """Checks that all acceptors have the same edits from one writer, up to the last batch end that all copies share."""
    shared = set.intersection(*(set(copy.marks) for copy in copies)) if copies else set()
    if shared and len({copy.marks[max(shared)] for copy in copies}) > 1:
        names = ", ".join(copy.acceptor for copy in copies)
        found.problem(
            f"segment {copies[0].first_txid} (in progress)", f"the copies of {names} hold different edits"
        )


def _span(copies: Sequence[CopyFound]) -> Iterator[tuple[int, int]]:
    if copies:
        yield copies[0].first_txid, max(copy.last_txid for copy in copies)


def _check_layouts(found: JournalFindings, where: str, copies: Sequence[CopyFound]) -> None:
    """Checks that all copies have the same layout, because the same frames are different ops in another layout."""
    if len({copy.layout_version for copy in copies}) > 1:
        layouts = ", ".join(f"{copy.acceptor} has {copy.layout_version}" for copy in copies)
        found.problem(where, f"the copies have different layouts: {layouts}")


def _check_beginning(found: JournalFindings, first: int, purged_below: int) -> None:
    """Checks that no edits are missing at the start of the journal. A purge keeps the segment that contains the first
    txid to keep, so the journal must not begin after that txid. If nothing was purged, the journal may begin at any
    txid."""
    if 0 < purged_below < first:
        found.problem(
            JOURNAL,
            f"{txids(purged_below, first - 1)} missing: only segments that end before them were purged",
        )
    elif purged_below == 0 and first > FIRST_TXID:
        found.notes.append(f"the journal begins with txid {first}, and nothing before it was purged")


def _check_continuity(found: JournalFindings, spans: Sequence[tuple[int, int]]) -> None:
    for (first, last), (following, _) in zip(spans, spans[1:], strict=False):
        if following > last + 1:
            found.problem(JOURNAL, f"{txids(last + 1, following - 1)} missing")
        elif following <= last:
            found.problem(JOURNAL, f"segment {first}-{last} overlaps segment {following}")


def txids(first: int, last: int) -> str:
    """Formats txids as the subject of a sentence, with its verb."""
    return f"txid {first} is" if first == last else f"txids {first} to {last} are"


def _describe_spans(copies: Sequence[CopyFound]) -> str:
    return ", ".join(f"{copy.acceptor} has {copy.first_txid}-{copy.last_txid}" for copy in copies)
