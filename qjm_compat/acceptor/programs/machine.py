"""The acceptor as a pure state machine: a memory, and a program for each kind of call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import requests
from ...requests import R, Request
from . import edit_log_manifest, epochs, recovery, segment_programs, storage
from .acceptor_effects import Program
from .acceptor_memory import Memory

PROGRAMS: dict[type[Request[Any]], Callable[[Memory, Any], Program[Any]]] = {
    requests.IsFormatted: storage.is_formatted,
    requests.GetStorageInfo: storage.get_storage_info,
    requests.Format: storage.format_journal,
    requests.GetJournalCTime: storage.get_journal_c_time,
    requests.DoPreUpgrade: storage.do_pre_upgrade,
    requests.DoUpgrade: storage.do_upgrade,
    requests.DoFinalize: storage.do_finalize,
    requests.CanRollBack: storage.can_roll_back,
    requests.DoRollback: storage.do_rollback,
    requests.DiscardSegments: storage.discard_segments,
    requests.GetJournalState: epochs.get_journal_state,
    requests.NewEpoch: epochs.new_epoch,
    requests.Heartbeat: epochs.heartbeat,
    requests.StartLogSegment: segment_programs.start_log_segment,
    requests.FinalizeLogSegment: segment_programs.finalize_log_segment,
    requests.PurgeLogs: segment_programs.purge_logs,
    requests.PrepareRecovery: recovery.prepare_recovery,
    requests.AcceptRecovery: recovery.accept_recovery,
    requests.GetEditLogManifest: edit_log_manifest.get_edit_log_manifest,
}
"""The program for each kind of call. Two kinds are missing, because they bypass the state for speed: sending batches
(`segment_programs.admit_edits`) and reading cached edits."""

CONCURRENT = frozenset(
    {
        requests.GetEditLogManifest,
        requests.GetStorageInfo,
        requests.GetJournalCTime,
        requests.CanRollBack,
        requests.IsFormatted,
    }
)
"""Read-only calls that do not wait for calls that change the journal."""

RESETS = frozenset({requests.Format, requests.DoUpgrade, requests.DoRollback, requests.DiscardSegments})
"""Calls after which earlier edits may no longer belong to the journal."""


def program(me: Memory, request: Request[R]) -> Program[R]:
    """Returns the program of one call. Only the programs of `CONCURRENT` may run while another program is running."""
    return PROGRAMS[type(request)](me, request)
