"""Settings that have become constants: a file or a variable that still names one is told so. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def _names(gone: str, **replaced: str) -> Mapping[str, str]:
    """By name: the setting that takes its place, or "" for none. `replaced`: that setting, and whose place it takes."""
    found = dict.fromkeys(gone.split(), "")
    return found | {name: instead for instead, names in replaced.items() for name in names.split()}


GONE: Mapping[str, Mapping[str, str]] = {
    "limits": _names(
        "strangers_max tools_max maintenance_max calls_a_connection_max reads_a_connection_max "
        "tools_bytes_a_second still_seconds_max",
        peer_share=(
            "connections_a_peer_max strangers_a_peer_max tools_a_peer_max received_bytes_a_peer_max "
            "untaken_bytes_a_peer_max calls_a_peer_max polls_a_peer_max"
        ),
    ),
    "bookie": _names(
        "checkpoint_frames_max checkpoint_seconds_max disk_reserve_bytes disk_check_seconds "
        "slow_append_told_seconds",
    ),
    "upkeep": _names(
        "ledgers_per_second heal_look_seconds stock_seconds first_round_seconds low_space_seconds "
        "retry_seconds_min retry_seconds_max others_seconds overdue_seconds claim_lease_seconds "
        "auditor_lease_seconds leaving_seconds",
    ),
    "http": _names(
        "strangers_max request_seconds_max look_seconds bookie_answer_seconds_max bookies_asked_max "
        "idle_seconds streams_max entries_a_page entries_seconds_max ledgers_a_page",
        peer_share="connections_a_peer_max strangers_a_peer_max",
    ),
    "client": _names(
        "page_bytes recovery_tries_max recovery_attempts_max retry_replacement_seconds "
        "failed_bookie_seconds idle_lac_seconds long_poll_seconds close_drain_seconds_max "
        "quarantine_failures quarantine_window_seconds quarantine_seconds",
    ),
    "journal": _names(
        "pipelined_batches_max heartbeat_seconds slow_call_seconds output_buffer_bytes tail_txns_max "
        "tail_bytes_max tail_behind_seconds_max",
        takeover_seconds_max=(
            "get_journal_state_seconds_max new_epoch_seconds_max prepare_recovery_seconds_max "
            "accept_recovery_seconds_max finalize_segment_seconds_max"
        ),
    ),
    "journal-node": _names(
        "strangers_max calls_a_connection_max calls_max replies_bytes_max greeting_seconds_max "
        "frame_seconds_max reply_seconds_max idle_seconds_max held_bytes_max "
        "segment_bytes_per_second_min piece_seconds_max",
        peer_share="connections_a_peer_max strangers_a_peer_max",
    ),
}
"""The names of each table of the file that can be set no more."""


def gone_from(table: str) -> Mapping[str, str]:
    """Returns the names that could once be set in the table, each with the setting that takes its place, or ""."""
    return GONE.get(table, {})


def why_not(name: str, instead: str) -> str:
    """Says why the setting is refused, and what to do."""
    if instead:
        return f"{name} can be set no more: set {instead} in its place"
    return f"{name} is a constant now, and cannot be set: take it out"
