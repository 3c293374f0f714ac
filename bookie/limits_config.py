"""Limits on the resources that a bookie's clients may use, in total and per peer. A peer is an address."""

from __future__ import annotations

from dataclasses import dataclass, fields

from metadata.settings.tunable import tunable

MIB = 1024 * 1024

MESSAGE_ROOM_BYTES_MIN = 8 * MIB
"""Minimum memory for messages: with less, the sender of the largest message would wait forever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on a bookie's connections, memory and requests; `serving/limits/README.md` describes what happens when
    each limit is exceeded.

    `received_bytes_max`: large messages that are incomplete, or waiting to be handled. `untaken_bytes_max`: the send
    backlog: pages that have been read, or sent but not yet accepted by the kernel. `calls_max`: requests without an
    answer. `polls_max`: how many of these may be long polls. `peer_share`: the share of each limit that one address may
    have. `serving/limits/admission` contains the limits that are not settings.
    """

    connections_max: int = tunable(
        3072, "Concurrent connections of clients and tools; each uses a file descriptor.", 1, 1_000_000
    )
    received_bytes_max: int = tunable(
        64 * MIB,
        "Memory for large messages that are incomplete, or waiting to be handled.",
        MESSAGE_ROOM_BYTES_MIN,
        2**40,
    )
    untaken_bytes_max: int = tunable(
        64 * MIB,
        "Memory for pages that have been read, or sent but not yet accepted by the kernel.",
        MESSAGE_ROOM_BYTES_MIN,
        2**40,
    )
    calls_max: int = tunable(16_384, "Calls that have not been answered yet.", 1, 10_000_000)
    polls_max: int = tunable(8192, "Long polls: one for each reader that tails a ledger.", 1, 10_000_000)
    peer_share: float = tunable(
        0.5,
        "Share of each of these limits that one address may have; 1 if all clients share one address.",
        0.001,
        1,
    )

    def __post_init__(self) -> None:
        if any(getattr(self, one.name) <= 0 for one in fields(self)) or self.peer_share > 1:
            raise ValueError("every limit must be above 0, and the share of one address must be at most 1")
        if min(self.received_bytes_max, self.untaken_bytes_max) < MESSAGE_ROOM_BYTES_MIN:
            raise ValueError(
                f"the memory for messages must have room for a message of {MESSAGE_ROOM_BYTES_MIN} bytes"
            )
