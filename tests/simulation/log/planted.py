"""Rules of log, codec, index and reading broken on purpose, one at a time; each names what it is about.

The budget beside each is the number of seeds within which the second layer finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bookie.index.index import Index
from bookie.index.ledger_state import Fence, LedgerState
from bookie.index.places import RecentPlaces
from bookie.log import appender, records, replay, segments
from bookie.log import format as log_format
from bookie.log.appender import LogAppender
from bookie.log.format import Record, RecordHeader, RecordKind
from bookie.log.writer import LogWriter, Written
from bookie.storage import core, frames, reading
from bookie.storage.core import Answer, BookieCore, Effect
from bookie.storage.reading import EntryPage
from bookie.wire import NO_ENTRIES, Columns, Frame, Status, attachments, codec
from bookie.wire.codec import appends
from tests.simulation.engine.planted import Plant

from . import storage

Patch = pytest.MonkeyPatch


# --- the log's writer ---------------------------------------------------------------------------


def acknowledges_before_the_sync(patch: Patch) -> None:
    """B1, F14: what is written counts as durable."""

    def broken(self: LogAppender) -> None:
        self.synced_position = self.position

    patch.setattr(LogAppender, "sync", broken)


def tries_a_failed_sync_again(patch: Patch) -> None:
    """B1: the second sync succeeds and saves nothing."""
    sync = LogAppender.sync

    def broken(self: LogAppender) -> None:
        try:
            sync(self)
        except OSError:
            sync(self)

    patch.setattr(LogAppender, "sync", broken)


def counts_deferred_records_as_synced(patch: Patch) -> None:
    """B1: a record whose sync is put off is reported durable when it is written."""

    def broken(self: LogWriter) -> list[Written]:
        durable, self._unsynced = self._unsynced, []
        if durable:
            self._on_durable(durable, self._appender.position)
        return self._unsynced

    patch.setattr(LogWriter, "_report_durable", broken)


def seals_a_segment_without_syncing_it(patch: Patch) -> None:
    """B1, B2: what was written before the roll is taken for durable."""

    def broken(self: LogAppender) -> None:
        self._file.truncate(self._offset)
        self._allocated = self._offset
        self.synced_position = self.position

    patch.setattr(LogAppender, "seal", broken)


def begins_a_segment_without_syncing_its_name(patch: Patch) -> None:
    """B2: a whole segment may vanish with its records."""

    def broken(disk: Any, segment: int, incarnation: str) -> Any:
        name = segments.name_of(segment)
        file = disk.open(name) if name in disk.names() else disk.create(name)
        file.write([log_format.encode_segment_header(log_format.SegmentHeader(segment, incarnation))], 0)
        file.datasync()
        return file

    patch.setattr(segments, "resume_or_begin", broken)


def says_too_much_was_synced(patch: Patch) -> None:
    """B2: every record says that its own group was on disk, so a torn group looks like damage."""
    encode = log_format.encode_record

    def broken(record: Record, *, position: int, synced: int) -> list[bytes | memoryview]:
        return encode(record, position=position, synced=position)

    patch.setattr(appender, "encode_record", broken)


# --- replay -------------------------------------------------------------------------------------


def cuts_the_whole_last_group(patch: Patch) -> None:
    """B2: more is cut than was torn."""
    settle = replay._settle_end

    def broken(file: Any, segment: int, last_group: int, end: int, *, newest: bool) -> None:
        settle(file, segment, last_group, last_group if newest else end, newest=newest)

    patch.setattr(replay, "_settle_end", broken)


def leaves_the_torn_tail_in_place(patch: Patch) -> None:
    """B2: what a start has found may be only in memory, and what it has denied may come back."""
    patch.setattr(replay, "_settle_end", lambda *_, **__: None)


def keeps_a_torn_record(patch: Patch) -> None:
    """B2: the checksum of a record is not looked at."""

    def broken(data: bytes, *, position: int) -> tuple[RecordHeader, Record]:
        header = log_format.decode_header(data, position=position)
        body = memoryview(data)[log_format.RECORD_HEADER.size :]
        if len(body) < header.body_bytes:
            raise log_format.BadRecordBytes("the record is cut short")
        return header, log_format._record(header, body[: header.body_bytes])

    patch.setattr(records, "decode_record", broken)


def takes_damage_for_a_torn_tail(patch: Patch) -> None:
    """B2, R6: no witness is looked for, and everything behind the damage is cut off."""
    patch.setattr(replay, "durable_record_after", lambda *_: None)


def forgets_fences_in_replay(patch: Patch) -> None:
    """R1, F13: a fence record in the log is passed over."""

    def broken(state: LedgerState, record: Record) -> bool:
        return record.kind is not RecordKind.FENCE and core.remember(state, record)

    patch.setattr(storage, "remember", broken)


def takes_the_disk_of_another_bookie(patch: Patch) -> None:
    """W7: the incarnation in a segment's header is not looked at."""

    def broken(file: Any, *_: object) -> Any:
        return log_format.decode_segment_header(file.read(log_format.SEGMENT_HEADER.size, 0))

    patch.setattr(segments, "check_header", broken)


# --- the index ----------------------------------------------------------------------------------


def checkpoints_ahead_of_what_is_synced(patch: Patch) -> None:
    """B2: the checkpoint says that records are in the index which nobody has reported."""
    report = LogWriter._report_durable

    def broken(self: LogWriter) -> list[Written]:
        on_durable = self._on_durable
        self._on_durable = lambda durable, _: on_durable(durable, self._appender.position)
        try:
            return report(self)
        finally:
            self._on_durable = on_durable

    patch.setattr(LogWriter, "_report_durable", broken)


def forgets_frames_at_a_checkpoint(patch: Patch) -> None:
    """R6: frames since the last checkpoint are in neither memory nor LMDB."""

    def broken(self: Index) -> None:
        self._moving, self._recent = RecentPlaces(), RecentPlaces()

    patch.setattr(Index, "begin_checkpoint", broken)


def hides_frames_during_a_checkpoint(patch: Patch) -> None:
    """R6: frames on their way into LMDB are not found."""

    def broken(self: Index, ledger_id: int, first_entry: int, last_entry: int) -> list[Any]:
        return self._recent.holding(ledger_id, first_entry, last_entry)

    patch.setattr(Index, "recent_holding", broken)


def loses_the_fence_at_a_checkpoint(patch: Patch) -> None:
    """R1, F13: the ledger's row does not say that it is fenced."""
    encode = LedgerState.encode
    patch.setattr(LedgerState, "encode", lambda self: encode(replace(self, fence=Fence.NONE)))


def forgets_the_owner_at_a_checkpoint(patch: Patch) -> None:
    """A ledger's row does not say whose it is."""
    encode = LedgerState.encode
    patch.setattr(LedgerState, "encode", lambda self: encode(replace(self, verifier=None)))


# --- reading ------------------------------------------------------------------------------------


def takes_damage_for_absence(patch: Patch) -> None:
    """R6, F11: a record that cannot be read holds nothing."""
    read_frame = frames.read_frame

    def broken(*arguments: Any) -> Columns:
        columns = read_frame(*arguments)
        return columns if isinstance(columns, Columns) else NO_ENTRIES

    patch.setattr(reading, "read_frame", broken)


class Anywhere:
    """Equal to every place."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def serves_what_lies_in_another_place(patch: Patch) -> None:
    """P4, R6: a record's own position is not compared, so a misdirected read is served."""

    def broken(data: bytes, *, position: int) -> RecordHeader:
        if len(data) < log_format.RECORD_HEADER.size:
            raise log_format.BadRecordBytes("the record header is cut short")
        magic, *fields = log_format.RECORD_HEADER.unpack_from(data)
        if magic != log_format.RECORD_MAGIC:
            raise log_format.BadRecordBytes("no record begins here")
        return RecordHeader(*fields)

    patch.setattr(log_format, "decode_header", broken)
    patch.setattr(records, "decode_header", broken)
    patch.setattr(frames, "place_of_frame", lambda *_: Anywhere())


def speaks_for_more_than_it_has_read(patch: Patch) -> None:
    """R6: a page that ends early says that nothing follows."""
    read = reading.read_page

    def broken(files: Any, places: Any, ledger_id: int, first: int, last: int, bytes_max: int) -> EntryPage:
        page = read(files, places, ledger_id, first, last, bytes_max)
        return replace(page, covered_through=last)

    patch.setattr(reading, "read_page", broken)


# --- the wire -----------------------------------------------------------------------------------


def drops_the_recovery_flag(patch: Patch) -> None:
    """R4: what a recoverer writes back is refused like the writer's."""
    frame_from = appends._frame_from
    patch.setattr(appends, "_frame_from", lambda *from_wire: frame_from(*from_wire)._replace(recovery=False))


def drops_the_fence_of_a_read(patch: Patch) -> None:
    """F1: a recovery read does not fence."""
    decode = codec.decode_read_request
    patch.setattr(codec, "decode_read_request", lambda data: replace(decode(data), fence=False))


def takes_messages_with_a_wrong_checksum(patch: Patch) -> None:
    """P4, I11: what was damaged on its way is stored."""
    patch.setattr(attachments, "checksum_fits", lambda data: True)


# --- the core -----------------------------------------------------------------------------------


def answers_a_fence_before_it_is_on_disk(patch: Patch) -> None:
    """R1, F13"""
    fence = BookieCore.fence

    def broken(self: BookieCore, ledger_id: int, ticket: object, verifier: bytes = b"") -> list[Effect]:
        deaf = storage.Waiting(_deaf)
        return [*fence(self, ledger_id, deaf, verifier), Answer(ticket, Status.OK)]

    patch.setattr(BookieCore, "fence", broken)


def acknowledges_before_it_is_written(patch: Patch) -> None:
    """B1, F14; the canary: if this is not found at once, nothing is tested at all."""
    append = BookieCore.append

    def broken(self: BookieCore, frame: Frame, ticket: object) -> Sequence[Effect]:
        effects = append(self, frame, ticket)
        if isinstance(effects[0], Answer):
            return effects
        return [effects[0]._replace(ticket=storage.Waiting(_deaf)), Answer(ticket, Status.OK)]

    patch.setattr(BookieCore, "append", broken)


def _deaf(_: Status, __: str) -> None:
    """Has been answered."""


CANARY = Plant((acknowledges_before_it_is_written,), 3, known=0)

PLANTS = (
    CANARY,
    Plant((acknowledges_before_the_sync,), 3, known=0),
    Plant((tries_a_failed_sync_again,), 500, known=4),
    Plant((counts_deferred_records_as_synced,), 10, known=0),
    Plant((seals_a_segment_without_syncing_it,), 30, known=0),
    Plant((begins_a_segment_without_syncing_its_name,), 30, known=0),
    Plant((says_too_much_was_synced,), 1500, known=101),
    Plant((cuts_the_whole_last_group,), 30, known=0),
    Plant((leaves_the_torn_tail_in_place,), 1500, known=17),
    Plant((keeps_a_torn_record,), 100, known=12),
    Plant((takes_damage_for_a_torn_tail,), 1500, known=17),
    Plant((forgets_fences_in_replay,), 30, known=0),
    Plant((takes_the_disk_of_another_bookie,), 300, known=21),
    Plant((checkpoints_ahead_of_what_is_synced,), 1500, known=16),
    Plant((forgets_frames_at_a_checkpoint,), 10, known=0),
    Plant((hides_frames_during_a_checkpoint,), 100, known=0),
    Plant((loses_the_fence_at_a_checkpoint,), 30, known=0),
    Plant((forgets_the_owner_at_a_checkpoint,), 300, known=35),
    Plant((takes_damage_for_absence,), 60, known=7),
    Plant((serves_what_lies_in_another_place,), 1500, known=11),
    Plant((speaks_for_more_than_it_has_read,), 30, known=0),
    Plant((drops_the_recovery_flag,), 60, known=6),
    Plant((drops_the_fence_of_a_read,), 60, known=0),
    Plant((takes_messages_with_a_wrong_checksum,), 100, known=10),
    Plant((answers_a_fence_before_it_is_on_disk,), 10, known=0),
)
