"""Applies log records to states and index: those after the checkpoint at startup, all of them for an index rebuild."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..disk.disk import Disk
from ..index.index import Index
from ..index.local_ledger_state import LocalLedgerState
from ..log import segment_files
from ..log.format import NO_LEDGER, SEGMENT_HEADER, BookieLogRecord, RecordKind, position_of
from ..log.log_replay import replay
from ..log.record_reader import position_end
from .core import is_of_another, remember
from .ledger_states import LedgerStates

StateOf = Callable[[int], LocalLedgerState]
Note = Callable[[BookieLogRecord, int, int], None]
"""Called with each record, its position and its size."""


@dataclass(slots=True)
class LogReplayResult:
    """Result of replaying the log after the checkpoint.

    `log_end`: the end of the log. `has_lost`: the log has LOST records. `next_segment`: the first segment to write to.
    `served_through`: everything before this position has been applied.
    """

    records: int = 0
    size_bytes: int = 0
    has_lost: bool = False
    log_end: int = 0
    next_segment: int = 0
    served_through: int = 0


def replay_log(
    disk: Disk, incarnation: str, index: Index, states: LedgerStates, note: Note
) -> LogReplayResult:
    """Replays the log after the checkpoint. Raises DamagedLog."""
    done = LogReplayResult(served_through=index.checkpoint_position)
    for found in replay(disk, incarnation, done.served_through):
        done.records += 1
        done.size_bytes += found.header.record_bytes
        done.has_lost |= found.record.kind is RecordKind.LOST
        apply(found.record, index, states.hold, states.forget_former)
        note(found.record, found.position, found.header.record_bytes)
        done.served_through = position_end(found)
    states.forget_new_verifiers()
    if numbers := segment_files.numbers(disk):
        last = numbers[-1]
        done.log_end = max(done.served_through, position_of(last, SEGMENT_HEADER.size))
        done.next_segment = last if segment_files.is_empty(disk, last) else last + 1
        done.served_through = max(done.served_through, position_of(done.next_segment, 0))
    return done


def apply(record: BookieLogRecord, index: Index, state_of: StateOf, forget: Callable[[int], None]) -> None:
    """Applies a record, in log order, to the state of its ledger.

    If a record's identity differs from that of the earlier records with the same ledger id, the bookie must have
    forgotten the earlier ledger before it wrote the record, because no bookie accepts two ledgers with the same id
    (rule W8).
    """
    if record.ledger_id == NO_LEDGER:
        return
    if is_of_another(state_of(record.ledger_id), record):
        index.forget_former(record.ledger_id)
        forget(record.ledger_id)
    remember(state_of(record.ledger_id), record)
