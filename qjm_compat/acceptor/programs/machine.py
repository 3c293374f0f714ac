"""The acceptor as one pure machine: a memory, and a program for each kind of call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...requests import (
    AcceptRecovery,
    CanRollBack,
    DiscardSegments,
    DoFinalize,
    DoPreUpgrade,
    DoRollback,
    DoUpgrade,
    FinalizeLogSegment,
    Format,
    GetEditLogManifest,
    GetJournalCTime,
    GetJournalState,
    GetStorageInfo,
    Heartbeat,
    IsFormatted,
    NewEpoch,
    PrepareRecovery,
    PurgeLogs,
    R,
    Request,
    StartLogSegment,
)
from . import epochs, manifest, recovery, segments, storage
from .effects import Program
from .memory import Memory

PROGRAMS: dict[type[Request[Any]], Callable[[Memory, Any], Program[Any]]] = {
    IsFormatted: storage.is_formatted,
    GetStorageInfo: storage.get_storage_info,
    Format: storage.format_journal,
    GetJournalCTime: storage.get_journal_c_time,
    DoPreUpgrade: storage.do_pre_upgrade,
    DoUpgrade: storage.do_upgrade,
    DoFinalize: storage.do_finalize,
    CanRollBack: storage.can_roll_back,
    DoRollback: storage.do_rollback,
    DiscardSegments: storage.discard_segments,
    GetJournalState: epochs.get_journal_state,
    NewEpoch: epochs.new_epoch,
    Heartbeat: epochs.heartbeat,
    StartLogSegment: segments.start_log_segment,
    FinalizeLogSegment: segments.finalize_log_segment,
    PurgeLogs: segments.purge_logs,
    PrepareRecovery: recovery.prepare_recovery,
    AcceptRecovery: recovery.accept_recovery,
    GetEditLogManifest: manifest.get_edit_log_manifest,
}
"""Every call but two: batches (`segments.admit_edits`) and cached edits bypass the state, for speed."""

CONCURRENT = frozenset({GetEditLogManifest, GetStorageInfo, GetJournalCTime, CanRollBack, IsFormatted})
"""Calls that change nothing, and do not wait for those that do."""

RESETS = frozenset({Format, DoUpgrade, DoRollback, DiscardSegments})
"""Calls after which earlier edits may no longer belong to the journal."""


def program(me: Memory, request: Request[R]) -> Program[R]:
    """The program of one call; run one at a time, those of `CONCURRENT` apart."""
    return PROGRAMS[type(request)](me, request)
