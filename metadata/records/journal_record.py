"""Records of a journal's acceptor: one mutable state, and immutable finalized segments.

The state is one compare-and-swap record, so a promise, its segment and an accepted recovery change together or not at
all. A finalized segment stays in the state until it has its own record, so the state does not grow with the journal.
Generations distinguish dropped segments from those that replaced them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from google.protobuf.message import DecodeError

from ..errors import BadRecord
from ..version import encode_record
from . import records_pb2 as pb

FORMAT_VERSION = 1

SEGMENTS_MAX = 1000
"""Maximum number of segments in one state that do not have their own record yet; usually there are one or two."""

DROPPED_MAX = 1000
"""Maximum number of discards, rollbacks and formats recorded for one journal."""


@dataclass(frozen=True, slots=True)
class JournalStorage:
    """The namespace whose edits a journal contains; Hadoop keeps this information in a VERSION file."""

    layout_version: int
    namespace_id: int
    cluster_id: str
    c_time: int = 0


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """A segment listed in an acceptor's state: a ledger that a writer is writing, or that a former writer has written.

    `end_txid` is None while a writer may still append. Once it is set, the ledger is closed at that txid.
    """

    start_txid: int
    ledger_id: int
    layout_version: int
    writer_epoch: int
    end_txid: int | None = None
    finalized: bool = False

    def as_finalized(self, generation: int) -> FinalizedSegment:
        """Creates the separate record of this segment, which must be finalized."""
        assert self.finalized and self.end_txid is not None
        return FinalizedSegment(
            self.start_txid, self.end_txid, self.ledger_id, self.layout_version, self.writer_epoch, generation
        )


@dataclass(frozen=True, slots=True)
class AcceptedRecovery:
    """The end that the acceptor has accepted in the recovery of one segment (an accepted value of Paxos)."""

    start_txid: int
    end_txid: int
    in_progress: bool
    epoch: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """Segments of these generations that begin at `start_txid_min` or later no longer belong to the journal."""

    generation_min: int
    generation_max: int
    start_txid_min: int


@dataclass(frozen=True, slots=True)
class FinalizedSegment:
    """A segment that will never change; its ledger is closed, and its last transaction is `end_txid`."""

    start_txid: int
    end_txid: int
    ledger_id: int
    layout_version: int
    writer_epoch: int
    generation: int


@dataclass(frozen=True, slots=True)
class JournalState:
    """State of one acceptor: all its promises, in one record.

    `owner` is the id of the process that was promised the epoch `last_promised_epoch`, b"" if unknown. `joined_behind`
    is the first txid of the segment that the other acceptors had in progress when this acceptor joined the journal, 0
    if there was none. The acceptor that this one replaced may have acknowledged edits of that segment, and of earlier
    ones, that this one lacks, so this one does not vote on them (qjm_compat/sync/joining.py gives the reasoning).
    `epochs_above`: an acceptor that was lost may have promised epochs up to this one, so this acceptor promises none of
    them. A writer that already has such an epoch continues.
    """

    storage: JournalStorage | None = None
    last_promised_epoch: int = 0
    last_writer_epoch: int = 0
    committed_txid: int | None = None
    segments: tuple[SegmentRecord, ...] = ()
    accepted: tuple[AcceptedRecovery, ...] = ()
    last_finalized_start: int = 0
    purged_below: int = 0
    generation: int = 0
    dropped: tuple[Dropped, ...] = ()
    replaced_ledgers: tuple[int, ...] = ()
    previous: JournalState | None = None
    owner: bytes = b""
    joined_behind: int = 0
    epochs_above: int = 0
    nonce: bytes = field(default=b"", compare=False)

    @property
    def latest_epoch(self) -> int:
        """The latest known epoch: a new writer's epoch must be greater."""
        return max(self.last_promised_epoch, self.epochs_above)

    def shows(self, segment: FinalizedSegment) -> bool:
        """Returns whether a finalized segment belongs to the journal: it is neither purged, nor dropped along with its
        generation."""
        return segment.end_txid >= self.purged_below and not any(
            d.generation_min <= segment.generation <= d.generation_max
            and segment.start_txid >= d.start_txid_min
            for d in self.dropped
        )

    def finalized(self, records: Iterable[FinalizedSegment]) -> dict[int, FinalizedSegment]:
        """Returns the journal's finalized segments, in order of first txid: those in `records`, and those in this state
        that do not have a record yet."""
        found = {record.start_txid: record for record in records if self.shows(record)}
        for segment in self.segments:
            if segment.finalized:
                found[segment.start_txid] = segment.as_finalized(self.generation)
        return dict(sorted(found.items()))

    def needs(self, segment: FinalizedSegment) -> bool:
        """Returns whether the segment is visible in this state, or in the state that a rollback would restore."""
        before = self.previous
        is_before = before is not None and segment.generation <= before.generation and before.shows(segment)
        return is_before or self.shows(segment)


def encode_state(state: JournalState) -> bytes:
    """Encodes the value of `journals/<journal>/<acceptor>/state`."""
    return encode_record(_state_message(state))


def decode_state(key: str, value: bytes) -> JournalState:
    """Decodes an acceptor's state. Raises BadRecord if it cannot be trusted."""
    try:
        return _state(pb.Journal.FromString(value))
    except (DecodeError, ValueError) as error:
        raise BadRecord(key, str(error)) from error


def encode_finalized(segment: FinalizedSegment, nonce: bytes) -> bytes:
    """Encodes the value of `journals/<journal>/<acceptor>/segments/<txid>`."""
    return encode_record(
        pb.FinalizedSegment(
            format_version=FORMAT_VERSION,
            start_txid=segment.start_txid,
            end_txid=segment.end_txid,
            ledger_id=segment.ledger_id,
            layout_version=segment.layout_version,
            writer_epoch=segment.writer_epoch,
            generation=segment.generation,
            nonce=nonce,
        )
    )


def decode_finalized(key: str, value: bytes) -> FinalizedSegment:
    """Decodes a finalized segment. Raises BadRecord if it cannot be trusted."""
    try:
        message = pb.FinalizedSegment.FromString(value)
        _check_version(message.format_version)
        if not 0 < message.start_txid <= message.end_txid:
            raise ValueError(f"a segment cannot run from txid {message.start_txid} to {message.end_txid}")
    except (DecodeError, ValueError) as error:
        raise BadRecord(key, str(error)) from error
    return FinalizedSegment(
        message.start_txid,
        message.end_txid,
        message.ledger_id,
        message.layout_version,
        message.writer_epoch,
        message.generation,
    )


def _check_version(version: int) -> None:
    if version != FORMAT_VERSION:
        raise ValueError(f"format version {version}; this program supports {FORMAT_VERSION}")


def _state_message(state: JournalState) -> pb.Journal:
    message = pb.Journal(
        format_version=FORMAT_VERSION,
        last_promised_epoch=state.last_promised_epoch,
        last_writer_epoch=state.last_writer_epoch,
        committed_txid=state.committed_txid,
        last_finalized_start=state.last_finalized_start,
        purged_below=state.purged_below,
        generation=state.generation,
        replaced_ledgers=state.replaced_ledgers,
        owner=state.owner,
        joined_behind=state.joined_behind,
        epochs_above=state.epochs_above,
        nonce=state.nonce,
    )
    if state.storage is not None:
        message.storage.CopyFrom(_storage_message(state.storage))
    for s in state.segments:
        message.segments.add(
            start_txid=s.start_txid,
            ledger_id=s.ledger_id,
            layout_version=s.layout_version,
            writer_epoch=s.writer_epoch,
            end_txid=s.end_txid,
            finalized=s.finalized,
        )
    for a in state.accepted:
        message.accepted.add(
            start_txid=a.start_txid, end_txid=a.end_txid, in_progress=a.in_progress, epoch=a.epoch
        )
    for d in state.dropped:
        message.dropped.add(
            generation_min=d.generation_min,
            generation_max=d.generation_max,
            start_txid_min=d.start_txid_min,
        )
    if state.previous is not None:
        message.previous.CopyFrom(_state_message(state.previous))
    return message


def _storage_message(storage: JournalStorage) -> pb.JournalStorage:
    return pb.JournalStorage(
        layout_version=storage.layout_version,
        namespace_id=storage.namespace_id,
        cluster_id=storage.cluster_id,
        c_time=storage.c_time,
    )


def _state(message: pb.Journal) -> JournalState:
    _check_version(message.format_version)
    storage = message.storage
    state = JournalState(
        storage=JournalStorage(
            storage.layout_version, storage.namespace_id, storage.cluster_id, storage.c_time
        )
        if message.HasField("storage")
        else None,
        last_promised_epoch=message.last_promised_epoch,
        last_writer_epoch=message.last_writer_epoch,
        committed_txid=message.committed_txid if message.HasField("committed_txid") else None,
        segments=tuple(_segment(s) for s in message.segments),
        accepted=tuple(
            AcceptedRecovery(a.start_txid, a.end_txid, a.in_progress, a.epoch) for a in message.accepted
        ),
        last_finalized_start=message.last_finalized_start,
        purged_below=message.purged_below,
        generation=message.generation,
        dropped=tuple(Dropped(d.generation_min, d.generation_max, d.start_txid_min) for d in message.dropped),
        replaced_ledgers=tuple(message.replaced_ledgers),
        owner=message.owner,
        joined_behind=message.joined_behind,
        epochs_above=message.epochs_above,
        nonce=message.nonce,
    )
    return replace(state, previous=_state(message.previous)) if message.HasField("previous") else state


def _segment(message: pb.OpenSegment) -> SegmentRecord:
    return SegmentRecord(
        message.start_txid,
        message.ledger_id,
        message.layout_version,
        message.writer_epoch,
        message.end_txid if message.HasField("end_txid") else None,
        message.finalized,
    )
