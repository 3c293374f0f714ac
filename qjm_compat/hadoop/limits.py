"""Resource limits of a JournalNode: bounds on what clients, other daemons and unidentified peers make it hold."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.settings.tunable import tunable

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """Bounds of one daemon's ports, and of its calls to others."""

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
    connections_a_peer_max: int = tunable(
        512, "Of those, of one address; who comes then from there is told so.", 2, 100_000
    )
    strangers_max: int = tunable(
        256,
        "Connections that have not said who they are. Past it the oldest goes, if it had a second to say so.",
        2,
        100_000,
    )
    strangers_a_peer_max: int = tunable(128, "Of those, of one address.", 1, 100_000)
    buffered_bytes_max: int = tunable(
        512 * MIB,
        "Frames not whole, calls not answered and answers not taken, of all connections together. Above it the one "
        "that holds most is ended.",
        129 * MIB,
        2**40,
    )
    calls_a_connection_max: int = tunable(
        64, "Calls of one connection under way: no more is read from it until some are answered.", 1, 100_000
    )
    calls_max: int = tunable(
        128,
        "Calls of all connections under way. Above it a connection begins one only where it has none.",
        1,
        1_000_000,
    )
    replies_bytes_max: int = tunable(
        16 * MIB,
        "Answers that wait for one peer to take them; no more is read from it until it does.",
        1 * MIB,
        2**36,
    )
    greeting_seconds_max: float = tunable(10.0, "How long a peer may take to say who it is.", 0.1, 600)
    frame_seconds_max: float = tunable(60.0, "To end a frame that it has begun.", 1, 3600)
    reply_seconds_max: float = tunable(60.0, "To take its answers.", 1, 3600)
    idle_seconds_max: float = tunable(
        600.0,
        "How long a connection may say nothing; stock clients give theirs up after ten seconds.",
        15,
        86_400,
    )
    transfers_max: int = tunable(
        16, "Segments that are sent at a time; who asks for one more is told to come again.", 1, 1000
    )
    held_bytes_max: int = tunable(
        8 * MIB, "Of a segment that is held while it is sent; a larger one is read twice.", 64 * 1024, 2**30
    )
    segment_bytes_per_second_min: int = tunable(
        64 * 1024, "How fast a reader must take a segment in, beside `piece_seconds_max`.", 1, 2**30
    )
    piece_seconds_max: float = tunable(
        60.0, "How long a reader of a segment may take to take in one batch.", 1, 3600
    )
