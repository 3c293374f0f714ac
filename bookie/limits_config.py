"""How much of a bookie its peers may use, together and each of them. A peer is an address."""

from __future__ import annotations

from dataclasses import dataclass, fields

MIB = 1024 * 1024

MESSAGE_ROOM_BYTES_MIN = 8 * MIB
"""The largest message has to fit, or its sender would wait for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of what strangers and clients can make a bookie hold; `bookie/README.md` says what happens past each.

    `connections_*`: of clients and tools. `strangers_*`: those of them that have not said what they are.
    `tools_*`: those that speak gRPC. `received_bytes_*`: of large messages that are not whole, or wait to be taken.
    `untaken_bytes_*`: pages that are read, or were sent and are not yet with the kernel. `calls_*`: asked and not
    answered. `polls_*`: those of them that wait for news. `maintenance_max`: acts of maintenance at a time.
    """

    connections_max: int = 3072
    connections_a_peer_max: int = 2048
    strangers_max: int = 512
    strangers_a_peer_max: int = 128
    tools_max: int = 64
    tools_a_peer_max: int = 48
    received_bytes_max: int = 64 * MIB
    received_bytes_a_peer_max: int = 32 * MIB
    untaken_bytes_max: int = 64 * MIB
    untaken_bytes_a_peer_max: int = 16 * MIB
    calls_max: int = 16_384
    calls_a_peer_max: int = 8192
    polls_max: int = 8192
    polls_a_peer_max: int = 4096
    maintenance_max: int = 4

    def __post_init__(self) -> None:
        if any(getattr(self, one.name) < 1 for one in fields(self)):
            raise ValueError("a limit below 1 would let nobody in")
        if min(self.received_bytes_a_peer_max, self.untaken_bytes_a_peer_max) < MESSAGE_ROOM_BYTES_MIN:
            raise ValueError(f"a peer needs room for a message of {MESSAGE_ROOM_BYTES_MIN} bytes")
