"""The edit log manifest: the segments that an acceptor can serve to readers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from metadata.records.journal_record import FinalizedSegment, JournalState, SegmentRecord

from ...errors import RuleViolated
from ...requests import GetEditLogManifest, Manifest, RemoteEditLog
from . import state_transitions
from .acceptor_effects import LedgerEnd, ListFinalized, LookAtLedger, Program
from .acceptor_memory import Memory


def get_edit_log_manifest(me: Memory, request: GetEditLogManifest) -> Program[Manifest]:
    """Lists the segments that hold `since_txid` or later edits. A segment in progress is listed up to its end on disk.
    Never fences."""
    state = yield from me.look_readable()
    logs = yield from finalized_logs(state)
    if request.in_progress_ok:
        logs += yield from _logs_in_progress(me, state)
    wanted = [log for log in logs if log.end_txid >= request.since_txid]
    return Manifest(without_overlaps(wanted), me.committed_txid, state.purged_below)


def finalized_logs(state: JournalState) -> Program[list[RemoteEditLog]]:
    """Returns all finalized segments, including those that do not have their own records yet."""
    records = [found.segment for found in (yield from ListFinalized())]
    return [_log(segment) for segment in state.finalized(records).values()]


def _log(segment: FinalizedSegment) -> RemoteEditLog:
    return RemoteEditLog(segment.start_txid, segment.end_txid, writer_epoch=segment.writer_epoch)


def _logs_in_progress(me: Memory, state: JournalState) -> Program[list[RemoteEditLog]]:
    """Returns the segments in progress that hold edits. Omits empty ones, because a NameNode would not start if one
    were listed."""
    logs: list[RemoteEditLog] = []
    for segment in state.segments:
        if not segment.finalized:
            end = yield from written(me, segment)
            if end.end_txid is not None:
                accepted = state_transitions.accepted_at(state, segment.start_txid)
                logs.append(
                    RemoteEditLog(
                        segment.start_txid,
                        end.end_txid,
                        in_progress=True,
                        writer_epoch=segment.writer_epoch,
                        committed_txid=end.committed_txid,
                        accepted_in_epoch=accepted.epoch if accepted is not None else 0,
                    )
                )
    return logs


def written(me: Memory, segment: SegmentRecord) -> Program[LedgerEnd]:
    """Returns the end on disk of a segment in progress, and the committed txid that its own writer reported."""
    mine = me.open
    if mine is not None and mine.ledger_id == segment.ledger_id:
        end = mine.durable_txid if mine.durable_txid >= mine.start_txid else None
        return LedgerEnd(end, me.committed_txid)
    end_of_ledger = yield from LookAtLedger(segment.ledger_id)
    if segment.end_txid is None:
        me.note_end(end_of_ledger)
    return end_of_ledger


@dataclass(frozen=True, slots=True)
class SegmentLocation:
    """Where to read edits from: `log` is the segment that holds the txid, or None if no segment does. `highest_txid` is
    the highest txid that exists."""

    log: RemoteEditLog | None
    highest_txid: int


def place_of(me: Memory, txid: int) -> Program[SegmentLocation]:
    """Finds the segment that holds `txid`. Searches the latest segments first, because followers usually read those."""
    state = yield from me.look_readable()
    in_progress = yield from _logs_in_progress(me, state)
    latest = [*in_progress]
    latest += [_log(segment) for segment in state.finalized(()).values()]
    holding = _holding(without_overlaps(latest), txid)
    if holding is not None:
        return SegmentLocation(holding, holding.end_txid)
    highest = max((log.end_txid for log in latest), default=0)
    if txid > highest >= max(1, state.last_finalized_start):
        return SegmentLocation(None, highest)  # fast path: a follower that already has all edits is polling
    logs = without_overlaps([*(yield from finalized_logs(state)), *in_progress])
    return SegmentLocation(_holding(logs, txid), max((log.end_txid for log in logs), default=0))


def _holding(logs: Iterable[RemoteEditLog], txid: int) -> RemoteEditLog | None:
    return next((log for log in logs if log.start_txid <= txid <= log.end_txid), None)


def without_overlaps(logs: Iterable[RemoteEditLog]) -> tuple[RemoteEditLog, ...]:
    """Sorts segments by start and drops overlapping ones: a finalized segment takes precedence over one in progress,
    and among segments in progress, one that starts later takes precedence over one that starts earlier.

    Raises RuleViolated if two finalized segments overlap, because they contradict each other.
    """
    kept: list[RemoteEditLog] = []
    for log in sorted(logs, key=lambda log: (log.start_txid, not log.in_progress)):
        while kept and kept[-1].end_txid >= log.start_txid and kept[-1].in_progress:
            kept.pop()
        if kept and kept[-1].end_txid >= log.start_txid and not log.in_progress:
            raise RuleViolated(f"Invalid log manifest (log {kept[-1]} overlaps {log})")
        if not kept or kept[-1].end_txid < log.start_txid:
            kept.append(log)
    return tuple(kept)
