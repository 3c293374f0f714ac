"""Rebuilds a log's record from the descriptions in its segments' ledgers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from metadata.records.ledger_record import LedgerRecord
from metadata.records.logs.log_ledgers import SegmentOf, log_of, segment_of
from metadata.records.logs.log_record import OBSOLETE_MAX, PAGE_SEGMENTS, LogRecord, LogSettings
from metadata.records.logs.segment import POSITION_MAX, Segment
from metadata.records.logs.shared_ledgers import Fork

EPOCHS_LEFT = 1000
"""Gap left above the highest known epoch, because take-overs that began no segment have left no trace."""


NO_OTHERS: Mapping[bytes, Sequence[LedgerRecord]] = {}


@dataclass(frozen=True, slots=True)
class RebuiltLog:
    """The rebuilt record of a log, its pages of earlier segments, and what is not known about the log."""

    record: LogRecord
    pages: tuple[tuple[Segment, ...], ...] = ()
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _LogLedger:
    """A ledger, and the segment that it claims to be."""

    said: SegmentOf
    ledger: LedgerRecord
    log: int = 0
    """Number of the log that created the ledger, among the logs whose ledgers a fork has. The number comes first in
    `rank`, because each log has its own epochs."""
    stop: int = POSITION_MAX
    """If a fork shares the ledger: the position at which the shared part ends."""

    @property
    def end_position(self) -> int | None:
        last = self.ledger.last_entry
        end = None if last is None else self.said.first_position + last + 1
        return end if self.stop == POSITION_MAX else min(self.stop, self.stop if end is None else end)

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sort key for ledgers at one position. The ledger with the highest key counts: that of the latest writer."""
        return self.log, self.said.epoch, self.ledger.ledger_id


def rebuilt_log(
    ledgers: Iterable[LedgerRecord],
    paged_us: int = 0,
    others: Mapping[bytes, Sequence[LedgerRecord]] = NO_OTHERS,
) -> RebuiltLog:
    """Returns the log rebuilt from `ledgers`: the ledgers of all known segments, except segments that are in pages and
    end by `paged_us`. `others`: the ledgers of other logs, some of which a fork shares. Raises ValueError if none of
    `ledgers` describes a segment.

    As usual, a take-over of the log recovers its last segment.
    """
    own = [_LogLedger(said, one) for one in ledgers if (said := segment_of(one.custom_metadata)) is not None]
    known = _header(own)
    found = [*_shared(known, others), *(replace(one, log=len(known.makers)) for one in own)]
    chain = [one for one in _chained(found) if not _is_dead(one, known)]
    segments, doubts = _segments_of(chain, paged_us)
    *earlier, last = _runs(segments) or [()]
    record, pages = _with_segments(known, last)
    left_out = sorted({one.ledger.ledger_id for one in own} - {one.ledger_id for one in segments})
    return RebuiltLog(
        replace(record, obsolete=tuple(left_out[:OBSOLETE_MAX])),
        (*(page for run in earlier for page in _paged(run)), *pages),
        (*doubts, *_gaps([*earlier, last])),
    )


def _shared(known: LogRecord, others: Mapping[bytes, Sequence[LedgerRecord]]) -> Iterator[_LogLedger]:
    """Yields the ledgers of other logs that a fork shares (rule L13)."""
    for number, maker in enumerate(known.makers):
        for one in others.get(maker.identity, ()):
            said = segment_of(one.custom_metadata)
            if said is not None and known.maker_of(said.first_position) == maker.identity:
                yield _LogLedger(said, one, number, maker.stop)


def forks_of(logs: Iterable[LogRecord]) -> dict[bytes, tuple[Fork, ...]]:
    """Returns the forks that each log's record must list, by the log's identity, given that `logs` are all the logs."""
    found: dict[bytes, tuple[Fork, ...]] = {}
    for log in logs:
        start = log.first_position
        for maker in log.makers:
            if start < maker.stop:
                found[maker.identity] = (
                    *found.get(maker.identity, ()),
                    Fork(log.identity, start, maker.stop),
                )
            start = max(start, maker.stop)
    return found


def _header(found: Sequence[_LogLedger]) -> LogRecord:
    """Returns the log's record without segments, according to the latest ledger of the log."""
    latest = max(found, key=lambda one: (one.rank, one.said.first_position))
    epoch = latest.said.epoch + EPOCHS_LEFT
    ranked = [(one.rank, log) for one in found if (log := log_of(one.ledger.custom_metadata)) is not None]
    if ranked:
        return replace(max(ranked, key=lambda item: item[0])[1], epoch=epoch)
    identity, settings = latest.said.identity, LogSettings(latest.ledger.shape, latest.ledger.digest_type)
    return LogRecord(identity, f"log-{identity.hex()}", settings, epoch=epoch)


def _chained(found: Iterable[_LogLedger]) -> list[_LogLedger]:
    """Returns the ledgers that follow one another. Omits empty ledgers, and an earlier writer's ledgers that are not
    needed because the tail they continue ended earlier than they assume."""
    chain: list[_LogLedger] = []
    for one in sorted(found, key=lambda one: (one.said.first_position, one.rank)):
        if one.end_position == one.said.first_position:
            continue
        while chain and chain[-1].said.first_position == one.said.first_position:
            chain.pop()
        if not chain or one.rank >= chain[-1].rank:
            chain.append(one)
    return chain


def _is_dead(one: _LogLedger, known: LogRecord) -> bool:
    """Returns whether the segment was truncated, and reappears only because its ledger has not been collected yet."""
    return one.end_position is not None and one.end_position <= known.first_position


def _segments_of(chain: Sequence[_LogLedger], time_us: int) -> tuple[list[Segment], list[str]]:
    """Returns the segments of the ledgers, and a description of each doubt about them. No segment begins before
    `time_us`, because earlier times are looked up in pages."""
    segments: list[Segment] = []
    doubts = []
    for one, following in zip(chain, [*chain[1:], None], strict=False):
        begun_us = max(time_us, one.ledger.created_ms * 1000)
        segment = Segment(one.ledger.ledger_id, one.said.first_position, one.said.epoch, begun_us)
        end = one.end_position
        if following is not None and (end is None or end > following.said.first_position):
            end = following.said.first_position
            doubts.append(f"ledger {one.ledger.ledger_id} must be recovered: it ends before position {end}")
        if end is not None:
            segment = segment.ended(end, _ended_us(one, following), one.ledger.length_bytes or 0)
        segments.append(segment)
        time_us = max(segment.begun_us, segment.ended_us)
    return segments, doubts


def _ended_us(one: _LogLedger, following: _LogLedger | None) -> int:
    """Returns the time when the ledger was closed or, if no bookie noted this time, the time when the next ledger was
    created. If clocks are right, the ledger's last record is not later than the returned time."""
    if not one.ledger.closed_ms and following is not None:
        return following.ledger.created_ms * 1000
    return one.ledger.closed_ms * 1000 + 999


def _runs(segments: Iterable[Segment]) -> list[tuple[Segment, ...]]:
    """Splits segments into as few runs as possible, such that in each run every segment begins where the previous one
    ended."""
    runs: list[list[Segment]] = []
    for segment in segments:
        if runs and runs[-1][-1].end_position == segment.first_position:
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return [tuple(run) for run in runs]


def _with_segments(
    known: LogRecord, segments: tuple[Segment, ...]
) -> tuple[LogRecord, list[tuple[Segment, ...]]]:
    """Returns the record with the latest of these segments, and the pages with the earlier ones."""
    begin = segments[0].first_position if segments else known.first_position
    record = replace(known, segments=(), paged_through=max(begin, known.first_position))
    pages = []
    while len(segments) >= 2 * PAGE_SEGMENTS:
        pages.append(segments[:PAGE_SEGMENTS])
        segments = segments[PAGE_SEGMENTS:]
    if segments:
        record = replace(record, segments=segments, paged_through=segments[0].first_position)
    return record, pages


def _paged(run: tuple[Segment, ...]) -> Iterator[tuple[Segment, ...]]:
    for start in range(0, len(run), PAGE_SEGMENTS):
        yield run[start : start + PAGE_SEGMENTS]


def _gaps(runs: Sequence[Sequence[Segment]]) -> Iterator[str]:
    for one, following in zip(runs, runs[1:], strict=False):
        end = one[-1].end_position
        yield f"no bookie noted the segments with positions {end} to {following[0].first_position - 1}"
