"""Limits on what a bookie's clients may use, in total and for each peer. A peer is an address."""

from __future__ import annotations

from dataclasses import dataclass, fields

from metadata.settings.tunable import tunable

MIB = 1024 * 1024

MESSAGE_ROOM_BYTES_MIN = 8 * MIB
"""Room for the largest message, whose sender would wait for ever with less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on a bookie's connections, memory and requests; `bookie/README.md` says what happens past each.

    `connections_*`: all connections. `strangers_*`: those of them whose protocol is not yet detected. `tools_*`:
    those that speak gRPC. `received_bytes_*`: large messages that are incomplete, or wait to be taken.
    `untaken_bytes_*`: the send backlog: pages read, or sent and not yet accepted by the kernel. `calls_*`: requests
    without answer. `polls_*`: long polls among them. `maintenance_max`: concurrent acts of maintenance.
    """

    connections_max: int = tunable(
        3072, "Connections of clients and tools at a time; each takes a file descriptor.", 1, 1_000_000
    )
    connections_a_peer_max: int = tunable(
        2048, "Of those, of one address: raise it where many clients come from behind one.", 1, 1_000_000
    )
    strangers_max: int = tunable(
        512, "Connections that have not said what they are; the oldest make room.", 1, 1_000_000
    )
    strangers_a_peer_max: int = tunable(128, "Of those, of one address.", 1, 1_000_000)
    tools_max: int = tunable(64, "Connections that speak gRPC.", 1, 1_000_000)
    tools_a_peer_max: int = tunable(48, "Of those, of one address.", 1, 1_000_000)
    received_bytes_max: int = tunable(
        64 * MIB,
        "Memory for large messages that are not whole, or wait to be taken.",
        MESSAGE_ROOM_BYTES_MIN,
        2**40,
    )
    received_bytes_a_peer_max: int = tunable(
        32 * MIB, "Of that, for one address.", MESSAGE_ROOM_BYTES_MIN, 2**40
    )
    untaken_bytes_max: int = tunable(
        64 * MIB,
        "Memory for pages that are read, or sent and not yet with the kernel.",
        MESSAGE_ROOM_BYTES_MIN,
        2**40,
    )
    untaken_bytes_a_peer_max: int = tunable(
        16 * MIB, "Of that, for one address.", MESSAGE_ROOM_BYTES_MIN, 2**40
    )
    calls_max: int = tunable(16_384, "Calls asked and not answered.", 1, 10_000_000)
    calls_a_peer_max: int = tunable(8192, "Of those, of one address.", 1, 10_000_000)
    polls_max: int = tunable(
        8192, "Calls that wait for news: one for each reader that tails a ledger.", 1, 10_000_000
    )
    polls_a_peer_max: int = tunable(4096, "Of those, of one address.", 1, 10_000_000)
    maintenance_max: int = tunable(4, "Acts of maintenance at a time.", 1, 1000)

    calls_a_connection_max: int = tunable(
        4096, "Calls of one connection under way, most of them long polls.", 16, 1_000_000
    )
    reads_a_connection_max: int = tunable(
        16, "Pages of one connection in memory: who takes none of them has no more read.", 1, 1024
    )
    tools_bytes_a_second: int = tunable(
        16 * 1024,
        "What all tools together may say over gRPC: each call costs a millisecond that appends would have.",
        1024,
        2**30,
    )
    still_seconds_max: float = tunable(
        30.0,
        "A client with unfinished messages or untaken pages that moves nothing for so long is cut.",
        1,
        3600,
    )

    def __post_init__(self) -> None:
        if any(getattr(self, one.name) < 1 for one in fields(self)):
            raise ValueError("a limit below 1 would let nobody in")
        if min(self.received_bytes_a_peer_max, self.untaken_bytes_a_peer_max) < MESSAGE_ROOM_BYTES_MIN:
            raise ValueError(f"a peer needs room for a message of {MESSAGE_ROOM_BYTES_MIN} bytes")
