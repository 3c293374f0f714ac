"""Determines from the metadata which records retention removes next from a log, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..coordination.cursor_record import CursorStore, VersionedCursor
from . import silences
from .log_record import LogRecord
from .log_store import LogStore
from .retention import CountedCursor, Judgement, judge
from .segment import Segment
from .silences import Silences

HEAD_SEGMENTS_MAX = 64
"""Maximum number of segments that are checked and removed at a time: as many as one page contains."""


@dataclass(frozen=True, slots=True)
class RetentionView:
    """The part of a log's state that retention needs. `head`: the oldest segments that have ended and have remaining
    records; `bytes_left`: the size of all such segments.

    `cursors`: the cursors listed in the retention settings; None for one that does not exist.
    """

    record: LogRecord
    head: Sequence[Segment]
    bytes_left: int
    cursors: Mapping[str, VersionedCursor | None]
    silences: Silences

    @property
    def behind(self) -> dict[str, int]:
        """Cursors that have not reached the end of the ended segments, with the versions of their records; 0 for one
        that does not exist."""
        end = self.record.ended_position
        return {
            name: 0 if found is None else found.version
            for name, found in self.cursors.items()
            if (0 if found is None else found.record.position) < end
        }

    def counted(self, silent_ms: Mapping[str, int] | None = None) -> list[CountedCursor]:
        """Returns the cursors, each with the time for which it has not moved: the time in `silent_ms` if that is given,
        otherwise the recorded time."""
        known = {name: self.silences.of(name, version) for name, version in self.behind.items()}
        silent = known if silent_ms is None else silent_ms
        return [self._counted(name, silent.get(name, 0) / 1000) for name in self.cursors]

    def _counted(self, name: str, silent_seconds: float) -> CountedCursor:
        limit, found = self.record.retention.cursor_silent_seconds, self.cursors[name]
        counts = limit is None or silent_seconds < limit
        return CountedCursor(name, None if found is None else found.record.position, silent_seconds, counts)

    def judged(self, now_us: int, cursors: Sequence[CountedCursor] | None = None) -> Judgement:
        """Returns the records that retention removes now, and the segment to be removed next."""
        counted = self.counted() if cursors is None else cursors
        return judge(self.record.retention, self.head, self.bytes_left, counted, now_us)


async def look(logs: LogStore, record: LogRecord) -> RetentionView:
    """Reads the part of a log's state that retention needs. Raises MetadataError."""
    store, identity, retention = logs.store, record.identity, record.retention
    cursors = CursorStore(store, identity)
    pages = 0 if retention.bytes is None else await _bytes_in_pages(logs, record)
    return RetentionView(
        record,
        await _head(logs, record),
        pages + sum(s.length_bytes for s in _own_left(record)),
        {name: await cursors.read(name) for name in retention.cursors},
        await silences.read(store, identity) if retention.cursors else Silences(),
    )


async def _head(logs: LogStore, record: LogRecord) -> list[Segment]:
    head: list[Segment] = []
    position = record.first_position
    while position < record.paged_through and len(head) < HEAD_SEGMENTS_MAX:
        page = await logs.page_of(record.identity, position)
        if page is None:  # the log has changed in the meantime; the next call of `look` covers the rest
            return head
        head += [s.before(record.paged_us) for s in page.ending_in(position, record.paged_through)]
        position = page.segments[-1].end_position or record.paged_through
    head += _own_left(record)
    return head[:HEAD_SEGMENTS_MAX]


async def _bytes_in_pages(logs: LogStore, record: LogRecord) -> int:
    if record.first_position >= record.paged_through:
        return 0
    left = logs.paged_segments(record, record.first_position)
    return sum([segment.length_bytes async for segment in left])


def _own_left(record: LogRecord) -> list[Segment]:
    return [s for s in record.segments if (s.end_position or 0) > record.first_position]
