"""Ledger metadata: quorums, fragments and state, and the only permitted transitions.

State graph: OPEN → IN_RECOVERY → CLOSED, and OPEN → CLOSED by the writer (rules C1, R2). A closed ledger changes only
in the bookies that hold its entries (`moved`). The first entries of fragments are strictly increasing; each fragment
lists E different bookies. A bookie is identified along with its incarnation, so an empty disk under an old name is
never mistaken for the bookie that received the entries (rule W7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

from ..version import NO_VERSION, Version
from .cold.cold_copy import ColdCopy
from .fragment import ENTRY_ID_MAX as ENTRY_ID_MAX
from .fragment import FRAGMENTS_MAX as FRAGMENTS_MAX
from .fragment import BookieRef as BookieRef
from .fragment import Ensemble as Ensemble
from .fragment import Fragment as Fragment
from .fragment import Lacking as Lacking
from .fragment import check_fragments
from .fragment import next_fragments as next_fragments

ENSEMBLE_SIZE_MAX = 32
CUSTOM_METADATA_BYTES_MAX = 64 * 1024
IDENTITY_BYTES = 16

OWNER = "owner"
"""Custom metadata key of a ledger's owner, to which certificates can be restricted."""

JOURNAL = "bookledger.journal"
"""Key in the custom metadata of a segment's ledger; its value is the journal to which the segment belongs."""

SEGMENT = "bookledger.log"
"""Key in the custom metadata of a segment's ledger; its value consists of the segment's log, its first position and its
writer's epoch. The chain of segments can be rebuilt from these ledgers."""


def is_of(its: bytes | None, owner: str) -> bool:
    """Returns whether a ledger belongs to `owner`. `its`: the ledger's owner, or None if the ledger does not exist. An
    empty `owner` owns all ledgers that exist."""
    wanted = owner.encode()
    return its is not None and (not wanted or its == wanted or its.startswith(wanted + b"/"))


class LedgerState(StrEnum):
    """Life cycle of a ledger."""

    OPEN = "open"
    IN_RECOVERY = "in_recovery"
    CLOSED = "closed"


class DigestType(StrEnum):
    """How each entry is protected: CRC32C against damage, HMAC_SHA256 also against forgery."""

    CRC32C = "crc32c"
    HMAC_SHA256 = "hmac_sha256"


@dataclass(frozen=True, slots=True)
class Shape:
    """Ensemble size E, write quorum Qw and ack quorum Qa of a ledger. `E ≥ Qw ≥ Qa ≥ 1` (rule W1)."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int

    def __post_init__(self) -> None:
        if not ENSEMBLE_SIZE_MAX >= self.ensemble_size >= self.write_quorum >= self.ack_quorum >= 1:
            raise ValueError(
                f"ensemble size {self.ensemble_size}, write quorum {self.write_quorum}, ack quorum "
                f"{self.ack_quorum} do not fit: need {ENSEMBLE_SIZE_MAX} >= ensemble >= write quorum "
                ">= ack quorum >= 1"
            )

    def __str__(self) -> str:
        return f"{self.ensemble_size}/{self.write_quorum}/{self.ack_quorum}"


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """An operator's order to close a ledger at its survivors' last entry, although its end could not be proven.

    `at_ms`: when it was given, by the clock of the process that recorded it; `by`: the operator. `proven_through`: the
    last entry that was proven to be confirmed; the ledger ends after it if survivors had more entries, and before it if
    they had fewer. `missing`: the bookies of the last ensemble that did not answer; their entries after the end are
    abandoned. `to_fence`: those bookies of `missing` that have not fenced the ledger since.
    """

    at_ms: int
    by: str
    proven_through: int
    missing: Ensemble = ()
    to_fence: Ensemble = ()

    @property
    def at(self) -> datetime | None:
        """When the operator gave the order, in UTC."""
        return _time(self.at_ms)


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """One ledger's metadata, immutable; a change makes a new record and is one compare-and-swap.

    `verifier` is the public half of the key that is derived from the ledger's password; empty without one.
    `password_salt` is the salt with which the password is stretched. `created_ms` and `closed_ms` are by the clocks of
    its creator and closer; 0 if unknown, as in a rebuilt record. `reserved`: created for a future writer; exactly one
    can claim it, by compare-and-swap. `identity`: random, created with the ledger. A store that has reverted to an
    older copy assigns ids a second time, and the identity distinguishes the two ledgers with one id (rule W8).
    `accepted_loss`: how the ledger was closed without proof of its end; None for any other ledger; never removed.
    `also_at`: bookies outside the last ensemble that reported, after the store had reverted, that they hold more than
    this record lists. While there are any, this record permits only an operator who accepts a loss to close the ledger.
    Empty in a closed ledger. `written_at`: the version of the record as the ledger's writer last changed it, if another
    process has changed the record since; 0 if none has, or if the version is not known. `cold`: the ledger's copy in an
    object store, complete or still being uploaded. Once the copy is stored, the ensembles may be empty, which means
    that no bookie has the ledger (rule O2). `cold_version` counts the changes to where the ledger is stored: copied,
    released from bookies, recalled, copy forgotten. Of a record and a bookie's note, the one with the higher
    `cold_version` has the newer information about this.
    """

    ledger_id: int
    shape: Shape
    fragments: tuple[Fragment, ...]
    state: LedgerState = LedgerState.OPEN
    digest_type: DigestType = DigestType.CRC32C
    last_entry: int | None = None
    length_bytes: int | None = None
    custom_metadata: Mapping[str, bytes] = field(default_factory=dict)
    created_ms: int = 0
    closed_ms: int = 0
    nonce: bytes = b""
    reserved: bool = False
    verifier: bytes = b""
    password_salt: bytes = b""
    identity: bytes = b""
    accepted_loss: AcceptedLoss | None = None
    also_at: Ensemble = ()
    written_at: int = 0
    cold: ColdCopy | None = None
    cold_version: int = 0

    def __post_init__(self) -> None:
        is_stored = self.cold is not None and self.cold.is_stored
        check_fragments(self.fragments, self.shape.ensemble_size, may_be_nowhere=is_stored)
        if self.cold is not None and self.state is not LedgerState.CLOSED:
            raise ValueError("only a closed ledger can have a copy in an object store")
        if len(self.identity) not in (0, IDENTITY_BYTES):
            raise ValueError(f"a ledger's identity cannot have {len(self.identity)} bytes")
        closed = self.state is LedgerState.CLOSED
        if closed != (self.last_entry is not None) or closed != (self.length_bytes is not None):
            raise ValueError(
                "a closed ledger must have a last entry and a length, and no other ledger may have them"
            )
        if self.accepted_loss is not None and not closed:
            raise ValueError("only a closed ledger can have an accepted loss")
        if (self.last_entry or 0) < -1 or (self.length_bytes or 0) < 0:
            raise ValueError(f"a ledger cannot end at entry {self.last_entry} with {self.length_bytes} bytes")

    @property
    def created_at(self) -> datetime | None:
        """Creation time in UTC, by the creator's clock; None if not recorded."""
        return _time(self.created_ms)

    @property
    def closed_at(self) -> datetime | None:
        """Closing time in UTC, by the closer's clock; None if not recorded, and while the ledger is open."""
        return _time(self.closed_ms)

    @property
    def is_in_object_store(self) -> bool:
        """Whether there is a complete copy of the ledger in an object store."""
        return self.cold is not None and self.cold.is_stored

    @property
    def is_on_no_bookie(self) -> bool:
        """Whether the ledger has to be read from the object store, because no bookie's copy of any fragment is known to
        be complete."""
        return self.is_in_object_store and all(len(f.lacking) == len(f.ensemble) for f in self.fragments)

    @property
    def has_no_ensembles(self) -> bool:
        """Whether no bookie is to keep entries of the ledger (rule O2)."""
        return not any(fragment.ensemble for fragment in self.fragments)

    @property
    def may_lack_entries(self) -> bool:
        """Whether a copy on a bookie may lack entries."""
        return any(fragment.lacking for fragment in self.fragments)

    def uploading(self, copy: ColdCopy) -> LedgerRecord:
        """Records a copy, complete or still being uploaded, replacing any earlier one."""
        return replace(self, cold=copy, cold_version=self.cold_version + copy.is_stored)

    def forgetting_copy(self) -> LedgerRecord:
        """Returns the record without the copy in the object store."""
        return replace(self, cold=None, cold_version=self.cold_version + self.is_in_object_store)

    def without_copies(self) -> LedgerRecord:
        """Returns the record without the bookies' copies, because the ledger is in the object store."""
        assert self.is_in_object_store
        nowhere = (replace(one, ensemble=(), lacking=()) for one in self.fragments)
        return replace(self, fragments=tuple(nowhere), cold_version=self.cold_version + 1)

    def recalled(self, ensemble: Ensemble) -> LedgerRecord:
        """Returns the record with these bookies in all ensembles; they still have to copy the ledger from the object
        store."""
        placed = tuple(replace(one, ensemble=ensemble) for one in self.fragments)
        record = replace(self, fragments=placed, cold_version=self.cold_version + 1)
        for position in range(self.shape.ensemble_size):
            record = record.with_lacking(position, 0, self.confirmed_through)
        return record

    def names_bookie(self, bookie_id: str) -> bool:
        """Returns whether a bookie of this name, in any incarnation, holds entries of the ledger."""
        return any(bookie.bookie_id == bookie_id for one in self.fragments for bookie in one.ensemble)

    def may_hold(self, since: datetime | None, until: datetime | None) -> bool:
        """Returns whether, according to its record, the ledger may have entries that were appended between these times,
        inclusive.

        Depends on the clocks of writers and recoverers: allow for their skew.
        """
        was_closed_before = since is not None and self.closed_at is not None and self.closed_at < since
        was_made_after = until is not None and self.created_at is not None and self.created_at > until
        return not (was_closed_before or was_made_after)

    @property
    def is_of_log(self) -> bool:
        """Whether the ledger was created as a segment of a log."""
        return SEGMENT in self.custom_metadata

    @property
    def is_closed(self) -> bool:
        return self.state is LedgerState.CLOSED

    @property
    def confirmed_through(self) -> int:
        """The last entry that the record proves to be confirmed. All entries before the last fragment are confirmed
        (rule W4)."""
        return self.fragments[-1].first_entry - 1 if self.last_entry is None else self.last_entry

    def fragment_of(self, entry_id: int) -> Fragment:
        """Returns the fragment that holds `entry_id`."""
        assert entry_id >= self.fragments[0].first_entry
        return next(f for f in reversed(self.fragments) if f.first_entry <= entry_id)

    def changed_ensemble(self, fragment: Fragment) -> LedgerRecord:
        """Appends a fragment, or replaces the last one if it begins at the same entry (rule W4)."""
        *over, last = self.fragments
        before = (*over, last.lacking_through(fragment.first_entry - 1))
        return replace(self, fragments=next_fragments(before, fragment), written_at=0)

    @property
    def absent_positions(self) -> frozenset[int]:
        """Positions in the last ensemble whose bookies were absent when the ledger was created and, according to the
        record, have received no entry since (rule W9)."""
        return frozenset(lack.position for lack in self.fragments[-1].lacking if lack.is_everything)

    def claimed(self) -> LedgerRecord:
        """Returns the record after a writer has claimed the reserved ledger."""
        assert self.state is LedgerState.OPEN and self.reserved
        return replace(self, reserved=False)

    def in_recovery(self, version: int = 0) -> LedgerRecord:
        """Changes the state from OPEN to IN_RECOVERY (rule R2). `version`: the version of this record; 0 if it is not
        known."""
        assert self.state is LedgerState.OPEN
        return replace(self.left_by_writer(version), state=LedgerState.IN_RECOVERY)

    def left_by_writer(self, version: int) -> LedgerRecord:
        """Records `version` as the last version that the writer wrote, unless such a version is already recorded. Used
        before another process makes a change."""
        if self.state is not LedgerState.OPEN:
            return self
        return replace(self, written_at=self.written_at or version)

    def closed(self, last_entry: int, length_bytes: int) -> LedgerRecord:
        """Changes the state to CLOSED with this last entry; drops fragments that begin after it, because they hold no
        entries."""
        assert self.state is not LedgerState.CLOSED
        *over, last = tuple(f for f in self.fragments if f.first_entry <= last_entry) or self.fragments[:1]
        kept = (*over, last.lacking_through(last_entry))
        return replace(
            self,
            state=LedgerState.CLOSED,
            last_entry=last_entry,
            length_bytes=length_bytes,
            fragments=kept,
            also_at=(),
            written_at=0,
        )

    def found_at(self, bookie: BookieRef) -> LedgerRecord:
        """Adds a bookie that holds entries of the last fragment but is not in the last ensemble."""
        assert not self.is_closed
        return replace(self, also_at=(*self.also_at, bookie))

    def fenced_by(self, bookie: BookieRef) -> LedgerRecord:
        """Removes a bookie from `to_fence`: it did not answer when the loss was accepted, but has now returned and
        fenced the ledger."""
        loss = self.accepted_loss
        assert loss is not None
        left = tuple(one for one in loss.to_fence if one != bookie)
        return replace(self, accepted_loss=replace(loss, to_fence=left))

    def spans(self) -> Iterator[tuple[Fragment, int | None]]:
        """Returns each fragment with its last entry; None for the last fragment of a ledger that is not closed."""
        ends = [following.first_entry - 1 for following in self.fragments[1:]]
        return zip(self.fragments, [*ends, self.last_entry], strict=True)

    def copy_bytes(self) -> Iterator[tuple[Fragment, int]]:
        """Yields each fragment with the estimated payload bytes of one copy of it; 0 while the fragment is being
        written."""
        starts = [one.length_before for one in self.fragments]
        ends = [*starts[1:], starts[-1] if self.length_bytes is None else self.length_bytes]
        for fragment, start, end in zip(self.fragments, starts, ends, strict=True):
            yield fragment, max(0, end - start) * self.shape.write_quorum // self.shape.ensemble_size

    def with_lacking(self, position: int, first_entry: int, last_entry: int) -> LedgerRecord:
        """Records that the copies at this position may lack these entries. Changes every fragment that contains any of
        them."""
        return self._each_between(
            first_entry, last_entry, lambda f, first, last: f.with_lacking(position, first, last)
        )

    def without_lacking(self, position: int, first_entry: int, last_entry: int) -> LedgerRecord:
        """Records that these entries have arrived at this position. Of the ranges of entries that the copies there may
        lack, removes those that lie entirely within `first_entry` to `last_entry`; longer ranges remain."""

        def without(fragment: Fragment, first: int, last: int) -> Fragment:
            lack = fragment.lacking_at(position)
            within = lack is not None and first <= lack.first_entry and lack.last_entry <= last
            return fragment.whole_at(position) if within else fragment

        return self._each_between(first_entry, last_entry, without)

    def _each_between(
        self, first_entry: int, last_entry: int, change: Callable[[Fragment, int, int], Fragment]
    ) -> LedgerRecord:
        """Applies `change` to each fragment that contains any of these entries. `change` also gets the first and the
        last of these entries that the fragment contains."""
        fragments = []
        for fragment, end in self.spans():
            first = max(first_entry, fragment.first_entry)
            last = last_entry if end is None else min(last_entry, end)
            fragments.append(change(fragment, first, last) if first <= last else fragment)
        return replace(self, fragments=tuple(fragments))

    def closed_part(self) -> LedgerRecord | None:
        """Returns the part that has no writer, as a closed ledger; None if there is no such part.

        For a closed ledger this is the whole ledger; for any other, it is all but the last fragment, because the
        entries of the earlier fragments are confirmed.
        """
        if self.is_closed:
            return self
        *over, last = self.fragments
        if not over:
            return None
        return replace(
            self,
            state=LedgerState.CLOSED,
            last_entry=last.first_entry - 1,
            length_bytes=last.length_before,
            fragments=tuple(over),
        )

    def moved(self, first_entry: int, old: BookieRef, new: BookieRef) -> LedgerRecord:
        """In the fragment that begins at `first_entry`, replaces `old` with `new`, which has all entries on disk."""
        return self._with_fragment(first_entry, lambda fragment: fragment.moved(old, new))

    def whole_at(self, first_entry: int, bookie: BookieRef) -> LedgerRecord:
        """Marks the bookie's copy of the fragment that begins at `first_entry` as complete: all its entries are on
        disk."""
        return self._with_fragment(
            first_entry, lambda fragment: fragment.whole_at(fragment.ensemble.index(bookie))
        )

    def _with_fragment(self, first_entry: int, change: Callable[[Fragment], Fragment]) -> LedgerRecord:
        """Changes a fragment in the closed part only, which no writer or recovery changes at the same time."""
        part = self.closed_part()
        assert part is not None and any(f.first_entry == first_entry for f in part.fragments)
        fragments = tuple(change(f) if f.first_entry == first_entry else f for f in self.fragments)
        return replace(self, fragments=fragments)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What remains of a deleted ledger, so that its id is never assigned again."""

    ledger_id: int
    identity: bytes = b""
    version: Version = field(default=NO_VERSION, compare=False)
    """The store's revision at which the ledger was deleted."""
    is_of_log: bool = False
    """Whether the ledger was a segment of a log."""


def _time(milliseconds: int) -> datetime | None:
    """Converts milliseconds to a time in UTC; returns None for 0 or less, and for times outside the calendar."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds > 0 else None
    except (OverflowError, ValueError, OSError):
        return None
