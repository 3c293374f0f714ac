"""Configurable resource limits of a daemon's HTTP port."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.settings.tunable import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """Limits of one port. None of them changes the content of responses."""

    connections_max: int = tunable(
        64,
        "Maximum number of concurrent connections; a new one replaces one from the address with the most connections, "
        "or is refused. Each takes a file descriptor.",
        4,
        1024,
    )
    peer_share: float = tunable(
        0.75,
        "Share of the connections that one address may have; set it to 1 behind a proxy. Above it, the oldest idle "
        "connection of the address is closed.",
        0.01,
        1,
    )
    loop_share: float = tunable(
        0.1,
        "Share of the event loop's time for responses; further requests wait, so that appends do not have to.",
        0.01,
        1,
    )
