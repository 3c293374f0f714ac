"""The record of a log: its writer, its latest segments, its first position; and the only permitted transitions.

A segment is a ledger: its entry *n* is the record at `first_position` + *n*, so positions have no gaps. Each segment
begins where the previous one ends, and only the last one may be open. Empty segments are left out of the chain. Older
segments are moved to pages, so that the record does not grow with the log. The epoch rises with each take-over, and a
writer adds segments only under its own epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ..ledger_record import IDENTITY_BYTES, DigestType, Shape
from .retention import NOTHING_GOES, Retention
from .segment import POSITION_MAX, Segment, check_chain
from .shared_ledgers import FORKS_MAX, Fork, Maker, Successor, check_makers, makers_before


@dataclass(frozen=True, slots=True)
class SetMember:
    """A log's place in a set: the set's identity, the number of the log, and the number of logs.

    `generation`: the generation of the set's record from which the log has taken its retention and legal hold.
    """

    log_set: bytes
    number: int
    logs: int
    generation: int

    def __post_init__(self) -> None:
        if len(self.log_set) != IDENTITY_BYTES or not 0 <= self.number < self.logs or self.generation < 0:
            raise ValueError(
                f"invalid place in a set: log {self.number} of {self.logs} in set {self.log_set.hex()!r}"
            )


PAGE_SEGMENTS = 64
"""Number of segments in a page. Because this many are moved at a time, fewer than twice as many stay in the record."""

SEGMENTS_MAX = 4 * PAGE_SEGMENTS
"""Maximum number of segments in the record. There are more than twice PAGE_SEGMENTS only if pages cannot be written."""

OBSOLETE_MAX = 1000
"""Maximum number of obsolete ledgers in the record. Others are not listed, and remain until a process deletes them."""

ROLL_BYTES = 1024**3
ROLL_RECORDS = 2**31
ROLL_SECONDS = 86_400.0
"""Default age at which segments end. Large segments need less metadata; small ones are deleted sooner after a
truncation."""

WRITER_CHARACTERS_MAX = 256

PRODUCER_BYTES_MAX = 128
"""Maximum length of a producer's name, in bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a log's segments are written. A segment ends when it reaches the first of these limits."""

    shape: Shape = field(default_factory=lambda: Shape(3, 3, 2))
    digest_type: DigestType = DigestType.CRC32C
    roll_bytes: int = ROLL_BYTES
    roll_records: int = ROLL_RECORDS
    roll_seconds: float = ROLL_SECONDS

    def __post_init__(self) -> None:
        if not (0 < self.roll_bytes < 2**63 and 0 < self.roll_records < 2**63):
            raise ValueError("the limits of a segment must be at least 1 byte and 1 record")
        if not 0.001 <= self.roll_seconds < 2**40:
            raise ValueError(f"segments cannot end every {self.roll_seconds} seconds: use 0.001 or more")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One log's metadata, immutable; a change makes a new record and is one compare-and-swap.

    `first_position`: the position of the oldest remaining record. `segments`: the latest segments; the first of them
    begins at `paged_through`, where the last page ends. `obsolete`: unreferenced ledgers, to be deleted. A log has one
    `name`, which `lognames/` maps to the log; `next_name`: the new name during a rename. `owner`: the owner to whom
    certificates can be restricted, as for ledgers. `election` and `token`: those of the latest term under which the log
    was written. `retention`: its retention settings. `producers_from`: no record before this position has a producer;
    None if no record has one. `member`: its place in a set; None for a log that is not in a set. `forks`: other logs
    that have ledgers of this one. `makers`: the other logs that created this log's first ledgers. `forking`: the log is
    a fork that does not list all its segments yet. `successor`: the fork that has taken its name; the log has no writer
    after that.
    """

    identity: bytes
    name: str
    settings: LogSettings = field(default_factory=LogSettings)
    owner: str = ""
    epoch: int = 0
    writer: str = ""
    first_position: int = 0
    segments: tuple[Segment, ...] = ()
    paged_through: int = 0
    obsolete: tuple[int, ...] = ()
    legal_hold: bool = False
    deleted: bool = False
    created_ms: int = 0
    nonce: bytes = b""
    next_name: str = ""
    election: str = ""
    token: int = 0
    retention: Retention = NOTHING_GOES
    producers_from: int | None = None
    member: SetMember | None = None
    forks: tuple[Fork, ...] = ()
    makers: tuple[Maker, ...] = ()
    forking: bool = False
    successor: Successor | None = None

    def __post_init__(self) -> None:
        check_makers(self.makers)
        if len(self.forks) > FORKS_MAX:
            raise ValueError(f"a log has at most {FORKS_MAX} forks: delete one of them, or fork another log")
        if len(self.identity) != IDENTITY_BYTES:
            raise ValueError(f"a log's identity cannot have {len(self.identity)} bytes")
        if len(self.segments) > SEGMENTS_MAX:
            raise ValueError(f"{len(self.segments)} segments are too many for one record")
        if len(self.obsolete) > OBSOLETE_MAX:
            raise ValueError(f"{len(self.obsolete)} ledgers to be deleted are too many for one record")
        if min(self.epoch, self.paged_through, self.created_ms, self.token, self.producers_from or 0) < 0:
            raise ValueError("a log's record contains a negative number")
        check_chain(self.segments, self.paged_through)
        if not 0 <= self.first_position <= POSITION_MAX:
            raise ValueError(f"a log cannot begin at position {self.first_position}")
        if self.end_position is not None and self.first_position > self.end_position:
            raise ValueError(f"the first position {self.first_position} is after the end {self.end_position}")

    @property
    def log_set(self) -> str | None:
        """The name of the set to which the log belongs."""
        return None if self.member is None else self.name.rpartition(".")[0]

    def is_of(self, log_set: bytes) -> bool:
        """Returns whether the log belongs to the set with this identity."""
        return self.member is not None and self.member.log_set == log_set

    @property
    def last(self) -> Segment | None:
        """The last segment; None if the log has no segment yet."""
        return self.segments[-1] if self.segments else None

    @property
    def end_position(self) -> int | None:
        """The position after the last record; None while the last segment is open."""
        return self.segments[-1].end_position if self.segments else self.paged_through

    @property
    def ended_position(self) -> int:
        """The position after the last record of the segments that have ended."""
        last = self.last
        return self.paged_through if last is None else last.end_position or last.first_position

    @property
    def time_us(self) -> int:
        """The earliest time that a future record can have, as far as the log's record shows."""
        last = self.last
        return 0 if last is None else max(last.begun_us, last.ended_us)

    @property
    def paged_us(self) -> int:
        """Upper bound on the times of the records in pages."""
        return self.segments[0].begun_us if self.segments else POSITION_MAX

    def segment_of(self, position: int) -> Segment | None:
        """Returns the segment in this record that holds the position; None if a page has it, or if it does not exist
        yet."""
        return next((s for s in reversed(self.segments) if s.holds(position)), None)

    # --- transitions ------------------------------------------------------------------------------

    def taken_over(self, writer: str) -> LogRecord:
        """Gives the next epoch to a writer."""
        return replace(self, epoch=self.epoch + 1, writer=writer[:WRITER_CHARACTERS_MAX])

    def refuses(self, election: str, token: int) -> bool:
        """Returns whether a leader of a later term of this election has written to the log."""
        return self.election == election and self.token > token

    def led(self, election: str, token: int) -> LogRecord:
        """Records the term under which the log is written from now on."""
        assert not self.refuses(election, token)
        return replace(self, election=election, token=token)

    def with_producers(self, position: int) -> LogRecord:
        """Notes that records from this position on may have a producer."""
        return self if self.producers_from is not None else replace(self, producers_from=position)

    def ended(self, last: Segment) -> LogRecord:
        """Ends the last segment, which must have the same ledger as `last`. Removes the segment from the chain if it is
        empty."""
        assert last.is_ended
        *over, open_one = self.segments
        assert (open_one.ledger_id, open_one.first_position) == (last.ledger_id, last.first_position)
        if open_one.is_ended:
            return self
        if last.is_empty:
            return replace(self, segments=tuple(over)).with_obsolete([last.ledger_id])
        return replace(self, segments=(*over, last))

    def begun(self, segment: Segment) -> LogRecord:
        """Appends a segment of this epoch at the end of the log. Caps the times of earlier segments at the
        time when this one begins."""
        assert not segment.is_ended
        assert segment.epoch == self.epoch
        assert segment.first_position == self.end_position
        earlier = [one.before(segment.begun_us) for one in self.segments]
        return replace(self, segments=(*earlier, segment))

    def full_page(self) -> tuple[Segment, ...]:
        """Returns the segments to move to a page: the oldest ones, or none if there are too few. At least one ended
        segment before the last one stays in the record, so that `time_us` can be taken from it if the last one is empty
        and is removed."""
        count = len(self.segments)
        return self.segments[: min(PAGE_SEGMENTS, count - 2)] if count >= 2 * PAGE_SEGMENTS else ()

    def without_page(self, page: tuple[Segment, ...]) -> LogRecord:
        """Removes segments that are now in a page. Segments that have already been removed are skipped."""
        end = page[-1].end_position
        assert end is not None
        if end <= self.paged_through:
            return self
        left = tuple(s for s in self.segments if s.first_position >= end)
        return replace(self, segments=left, paged_through=end)

    def truncated(self, first_position: int) -> LogRecord:
        """Removes the records before a position, and the segments without remaining records. Never moves the first
        position back.

        The same change removes the segments from the chain and makes their ledgers obsolete, so that every segment that
        a later legal hold finds in the chain is kept. If `obsolete` has no room for some of these ledgers, their
        segments stay in the chain until the next truncation removes them.
        """
        log = replace(self, first_position=max(first_position, self.first_position))
        room = OBSOLETE_MAX - len(log.obsolete)
        dead = log.dead_segments()[:room]
        if not dead:
            return log
        start, left = dead[-1].end_position, log.segments[len(dead) :]
        assert start is not None
        return replace(log, segments=left, paged_through=start).with_obsolete(s.ledger_id for s in dead)

    def dead_segments(self) -> tuple[Segment, ...]:
        """Returns the segments in this record that have no remaining records: those at the start of the chain."""
        return tuple(s for s in self.segments if self.gave_up(s))

    def gave_up(self, segment: Segment) -> bool:
        """Returns whether a segment, in this record or in a page, has no remaining records."""
        return segment.end_position is not None and segment.end_position <= self._kept

    @property
    def _kept(self) -> int:
        return POSITION_MAX if self.deleted else self.first_position

    def maker_of(self, position: int) -> bytes:
        """Returns the identity of the log that created the ledger that holds this position."""
        return next((one.identity for one in self.makers if position < one.stop), self.identity)

    def is_forked(self, start: int, stop: int | None) -> bool:
        """Returns whether a fork needs any of these positions in the log's own ledgers. No fork needs an empty
        ledger."""
        return start != stop and any(one.needs(start, stop) for one in self.forks)

    def forked(self, identity: bytes, name: str, at: int, created_ms: int) -> LogRecord:
        """Returns the record of a new fork that ends before `at`; its segments are added later."""
        producers_from = self.producers_from
        return LogRecord(
            identity,
            name,
            self.settings,
            owner=self.owner,
            first_position=self.first_position,
            paged_through=self.first_position,
            created_ms=created_ms,
            producers_from=None if producers_from is None or producers_from >= at else producers_from,
            makers=makers_before(self.makers, self.identity, self.first_position, at),
            forking=True,
        )

    def with_fork(self, fork: Fork) -> LogRecord:
        """Adds a new fork. Raises ValueError if there are too many."""
        return replace(self, forks=(*self.forks, fork))

    def released(self, identity: bytes, start: int) -> LogRecord:
        """Records that the fork with this identity no longer needs the positions before `start`."""
        forks = [one.released(start) if one.identity == identity else one for one in self.forks]
        return replace(self, forks=tuple(filter(None, forks)))

    def with_shared(self, segments: tuple[Segment, ...]) -> LogRecord:
        """Completes a fork by setting the last of the segments that it shares."""
        assert self.forking and not self.segments
        start = segments[0].first_position if segments else self.first_position
        return replace(self, segments=segments, paged_through=start, forking=False)

    def succeeded(self, fork: bytes) -> LogRecord:
        """Gives the log its `next_name`, and its former name to a fork. After that the log has no writer and no
        retention."""
        assert self.next_name
        return replace(self.named(), successor=Successor(fork, self.name), retention=NOTHING_GOES)

    def emptied(self) -> LogRecord:
        """Returns what remains of a deleted log that has forks: a record of the ledgers that the forks need."""
        assert self.deleted
        return replace(self, segments=(), obsolete=(), paged_through=self.first_position, makers=())

    @property
    def is_done(self) -> bool:
        """Whether the log is deleted and has no forks, and its record lists nothing more to delete."""
        return self.deleted and not self.forks and self == self.emptied()

    def without_makers(self) -> LogRecord:
        """Removes from `makers` the logs whose ledgers this log no longer has."""
        return replace(self, makers=tuple(one for one in self.makers if one.stop > self._kept))

    def with_obsolete(self, ledgers: Iterable[int]) -> LogRecord:
        """Adds ledgers that are to be deleted."""
        return replace(self, obsolete=(*self.obsolete, *ledgers)[:OBSOLETE_MAX])

    def without_obsolete(self, ledgers: Iterable[int]) -> LogRecord:
        """Removes ledgers that have been deleted."""
        gone = set(ledgers)
        return replace(self, obsolete=tuple(one for one in self.obsolete if one not in gone))

    def to_be_named(self, name: str) -> LogRecord:
        """Sets the log's `next_name`; an empty name cancels the rename."""
        return replace(self, next_name=name)

    def named(self) -> LogRecord:
        """Makes `next_name` the log's name; the former name is free from then on."""
        return replace(self, name=self.next_name, next_name="")

    def without_segments(self) -> LogRecord:
        """Returns the part of the record that does not change with each segment."""
        return replace(
            self,
            next_name="",
            writer="",
            segments=(),
            paged_through=self.first_position,
            obsolete=(),
            forks=(),
            successor=None,
            nonce=b"",
        )

    def held(self, is_held: bool) -> LogRecord:
        """Begins or ends a legal hold."""
        return replace(self, legal_hold=is_held)

    def retained(self, retention: Retention) -> LogRecord:
        """Sets the retention."""
        return replace(self, retention=retention)

    def as_its_set(self, model: LogRecord, member: SetMember) -> LogRecord:
        """Adopts the set's retention and legal hold, unless the log already has the same or later settings from the
        set."""
        assert self.member is not None
        if self.member.generation >= member.generation:
            return self
        return replace(self, member=member, retention=model.retention, legal_hold=model.legal_hold)

    def given_up(self) -> LogRecord:
        """Marks the log as deleted: no writer has the epoch, and no records remain."""
        return replace(self, deleted=True, epoch=self.epoch + 1, writer="")
