"""Configurable resource limits of a daemon's HTTP port."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.settings.tunable import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """Limits of one port. None of them changes the content of answers."""

    connections_max: int = tunable(
        64,
        "Concurrent connections; a further one replaces one of the address that has most, or is refused. "
        "Each takes a file descriptor.",
        4,
        1024,
    )
    peer_share: float = tunable(
        0.75,
        "Share of the connections that one address may have; 1 behind a proxy. Past it the oldest idle one is closed.",
        0.01,
        1,
    )
    loop_share: float = tunable(
        0.1,
        "Share of the event loop that answers may take; further requests wait, so that appends do not.",
        0.01,
        1,
    )
