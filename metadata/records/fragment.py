"""Fragments of a ledger: runs of entries with one ensemble, and the entries that some copies may lack."""

from __future__ import annotations

from dataclasses import dataclass, replace

ENTRY_ID_MAX = 2**63 - 1
FRAGMENTS_MAX = 10_000


@dataclass(frozen=True, slots=True, order=True)
class BookieRef:
    """A bookie in the metadata: its name and the incarnation made when it was formatted."""

    bookie_id: str
    incarnation: str

    def __str__(self) -> str:
        return self.bookie_id


Ensemble = tuple[BookieRef, ...]


@dataclass(frozen=True, slots=True, order=True)
class Lacking:
    """The copy at this position of an ensemble may lack entries from `first_entry` through `last_entry`.

    Recorded by a writer for entries that this bookie never acknowledged, and by a recovery for entries about which it
    has no better information. As far as the writer knows, the copy has all other entries. A bookie that was absent when
    the ledger was created counts as lacking everything until the writer or a recovery finds otherwise (rule W9).
    """

    position: int
    first_entry: int
    last_entry: int

    def __post_init__(self) -> None:
        if not 0 <= self.first_entry <= self.last_entry:
            raise ValueError(f"a copy cannot lack entries {self.first_entry} to {self.last_entry}")

    @classmethod
    def everything(cls, position: int) -> Lacking:
        return cls(position, 0, ENTRY_ID_MAX)

    @property
    def is_everything(self) -> bool:
        """Whether the range has no known end."""
        return self.last_entry == ENTRY_ID_MAX

    def __str__(self) -> str:
        return "everything" if self.is_everything else f"entries {self.first_entry} to {self.last_entry}"


@dataclass(frozen=True, slots=True)
class Fragment:
    """A run of entries on one ensemble: from `first_entry` to the entry before the next fragment.

    `length_before` is the number of payload bytes of all entries before the fragment, so that a recovery that starts
    here knows the ledger's length. `lacking`: copies that may be incomplete, at most one range per position, in order
    of position. `number`: 1 for a ledger's first fragment, one more with each ensemble change; 0 if it is not known.
    """

    first_entry: int
    ensemble: Ensemble
    length_before: int = 0
    lacking: tuple[Lacking, ...] = ()
    number: int = 0

    def admits(self, new: BookieRef, *, in_place_of: BookieRef) -> bool:
        """Returns whether `in_place_of` is in the ensemble, and no other bookie of the ensemble has the new bookie's
        name."""
        others = {bookie.bookie_id for bookie in self.ensemble if bookie != in_place_of}
        return in_place_of in self.ensemble and new.bookie_id not in others

    def moved(self, old: BookieRef, new: BookieRef) -> Fragment:
        """Replaces `old` with `new` at the same position; the copy there is then recorded as lacking no entries."""
        ensemble = tuple(new if one == old else one for one in self.ensemble)
        return replace(self.whole_at(self.ensemble.index(old)), ensemble=ensemble)

    def lacking_at(self, position: int) -> Lacking | None:
        """Returns the range that the copy at this position may lack, if any."""
        return next((lack for lack in self.lacking if lack.position == position), None)

    def with_lacking(self, position: int, first_entry: int, last_entry: int) -> Fragment:
        """Adds entries that this copy may lack. One range covers all the entries that the copy may lack, including
        those recorded earlier."""
        before = self.lacking_at(position) or Lacking(position, first_entry, last_entry)
        span = Lacking(position, min(before.first_entry, first_entry), max(before.last_entry, last_entry))
        return replace(self, lacking=tuple(sorted((*self.whole_at(position).lacking, span))))

    def lacking_through(self, last_entry: int) -> Fragment:
        """Removes the entries after `last_entry`, the fragment's last entry, from the ranges that copies may lack."""
        if not self.lacking:
            return self
        lacking = (
            replace(one, last_entry=min(one.last_entry, last_entry))
            for one in self.lacking
            if one.first_entry <= last_entry
        )
        return replace(self, lacking=tuple(lacking))

    def whole_at(self, position: int) -> Fragment:
        """Removes the range of entries that the copy at this position may lack, because the copy is complete."""
        return replace(self, lacking=tuple(lack for lack in self.lacking if lack.position != position))


def next_fragments(fragments: tuple[Fragment, ...], new: Fragment) -> tuple[Fragment, ...]:
    """Returns the fragments after an ensemble change: the new one is appended, or replaces the last one if both begin
    at the same entry."""
    last = fragments[-1]
    assert new.first_entry >= last.first_entry, "an ensemble change never rewrites an earlier fragment"
    kept = fragments[:-1] if new.first_entry == last.first_entry else fragments
    return (*kept, replace(new, number=last.number and last.number + 1))


def check_fragments(
    fragments: tuple[Fragment, ...], ensemble_size: int, *, may_be_nowhere: bool = False
) -> None:
    """Raises ValueError for invalid fragments. `may_be_nowhere`: all ensembles may be empty."""
    if may_be_nowhere and not any(fragment.ensemble for fragment in fragments):
        ensemble_size = 0
    if not fragments or len(fragments) > FRAGMENTS_MAX:
        raise ValueError(f"a ledger has 1 to {FRAGMENTS_MAX} fragments, not {len(fragments)}")
    if fragments[0].first_entry != 0:
        raise ValueError("the first fragment must begin at entry 0")
    for one, following in zip(fragments, fragments[1:], strict=False):
        if one.first_entry >= following.first_entry:
            raise ValueError("the first entries of fragments must be strictly increasing")
    for fragment in fragments:
        names = {bookie.bookie_id for bookie in fragment.ensemble}
        if len(fragment.ensemble) != ensemble_size or len(names) != ensemble_size:
            raise ValueError(f"an ensemble must name {ensemble_size} different bookies")
        positions = [lack.position for lack in fragment.lacking]
        if positions != sorted(set(positions)) or not set(positions) <= set(range(ensemble_size)):
            raise ValueError(
                f"invalid positions {positions} of copies that lack entries in an ensemble of {ensemble_size}"
            )
