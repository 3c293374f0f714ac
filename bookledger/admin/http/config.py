"""Resource limits of a daemon's HTTP port, as far as they can be set."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.settings.tunable import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """Bounds of one port. None of them changes what is told."""

    connections_max: int = tunable(
        64,
        "Connections at a time; who comes then takes the place of one of the address that has most, or is told so. "
        "Each takes a file descriptor.",
        4,
        1024,
    )
    peer_share: float = tunable(
        0.75,
        "Share of the connections that one address may have; 1 behind a proxy. Past it the oldest idle one goes.",
        0.01,
        1,
    )
    loop_share: float = tunable(
        0.1,
        "Share of the event loop that answers may take: who asks for more waits, and appends do not.",
        0.01,
        1,
    )
