"""Resource limits of a JournalNode, as far as they can be set: what peers can make it hold."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.settings.tunable import tunable

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """Bounds of one daemon's ports."""

    journals_max: int = tunable(
        256,
        "Journals; who asks for one more is refused. Those that nobody has formatted do not count.",
        1,
        100_000,
    )
    connections_max: int = tunable(
        700,
        "Connections of the RPC port at a time; who comes then takes the place of one of the address that has most, "
        "or is told so. Each takes a file descriptor.",
        4,
        100_000,
    )
    peer_share: float = tunable(
        0.75, "Share of these that one address may have; who comes then from there is told so.", 0.001, 1
    )
    buffered_bytes_max: int = tunable(
        512 * MIB,
        "Frames not whole, calls not answered and answers not taken, of all connections together. Above it the one "
        "that holds most is ended.",
        129 * MIB,
        2**40,
    )
    transfers_max: int = tunable(
        16, "Segments that are sent at a time; who asks for one more is told to come again.", 1, 1000
    )
