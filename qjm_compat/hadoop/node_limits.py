"""Configurable resource limits of a JournalNode: they bound the memory, connections and work that peers can demand."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.settings.tunable import tunable

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """Limits that apply to one daemon's ports."""

    journals_max: int = tunable(
        256,
        "Maximum number of journals; calls for any more are refused. Unformatted journals do not count.",
        1,
        100_000,
    )
    connections_max: int = tunable(
        700,
        "Maximum number of connections to the RPC port. Any more replace a connection of the address with the most, "
        "or are refused. Each uses a file descriptor.",
        4,
        100_000,
    )
    peer_share: float = tunable(
        0.75, "Share of these connections that one address may have; any more from it are refused.", 0.001, 1
    )
    buffered_bytes_max: int = tunable(
        512 * MIB,
        "Maximum bytes of partial frames, unanswered calls and unsent answers, for all connections in total. Above "
        "this, the connection that holds the most is closed.",
        129 * MIB,
        2**40,
    )
    transfers_max: int = tunable(
        16, "Maximum number of segments sent at a time; further requests are told to try again.", 1, 1000
    )
