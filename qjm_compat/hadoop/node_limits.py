"""Configurable resource limits of a JournalNode: bounds on what peers can make it hold."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.settings.tunable import tunable

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """Bounds of one daemon's ports."""

    journals_max: int = tunable(
        256,
        "The most journals; a call for a further one is refused. Unformatted journals do not count.",
        1,
        100_000,
    )
    connections_max: int = tunable(
        700,
        "Connections of the RPC port at a time; a further one replaces one of the address with the most, "
        "or is refused. Each takes a file descriptor.",
        4,
        100_000,
    )
    peer_share: float = tunable(
        0.75, "Share of these that one address may have; further connections from it are refused.", 0.001, 1
    )
    buffered_bytes_max: int = tunable(
        512 * MIB,
        "Bytes of partial frames, unanswered calls and unsent answers, of all connections together. Above it the "
        "connection that holds the most is closed.",
        129 * MIB,
        2**40,
    )
    transfers_max: int = tunable(
        16, "Segments sent at a time; a request for a further one gets the answer to try again.", 1, 1000
    )
