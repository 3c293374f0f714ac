"""Resource limits of a daemon's HTTP port and of the console."""

from __future__ import annotations

from dataclasses import dataclass

from metadata.settings.tunable import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """Bounds of one port. None of them changes what is told, but for how much stands on a page."""

    connections_max: int = tunable(
        64,
        "Connections at a time; who comes then takes the place of one of the address that has most, or is told so. "
        "Each takes a file descriptor.",
        4,
        1024,
    )
    connections_a_peer_max: int = tunable(
        48, "Of those, of one address. Past it the oldest goes that waits for no answer.", 1, 1024
    )
    strangers_max: int = tunable(
        32, "Connections that have not asked for anything yet. The oldest goes for the next.", 1, 1024
    )
    strangers_a_peer_max: int = tunable(24, "Of those, of one address.", 1, 1024)
    loop_share: float = tunable(
        0.1,
        "Share of the event loop that answers may take: who asks for more waits, and appends do not.",
        0.01,
        1,
    )
    request_seconds_max: float = tunable(
        10.0, "How long a connection may say nothing, or half of something.", 0.1, 600
    )
    look_seconds: float = tunable(
        2.0,
        "Between two refreshes of the console, and two looks at the bookies while somebody looks on.",
        0.2,
        600,
    )
    bookie_answer_seconds_max: float = tunable(
        2.0, "A bookie that has not answered by then is shown as silent.", 0.1, 60
    )
    bookies_asked_max: int = tunable(
        200, "At each look, by name; of the rest nothing live is shown.", 1, 10_000
    )
    idle_seconds: float = tunable(
        30.0, "So long after somebody has looked on the bookies are asked no more.", 1, 3600
    )
    streams_max: int = tunable(
        16, "Pages that are told when to look again; more look by themselves, more seldom.", 1, 1000
    )
    entries_a_page: int = tunable(50, "Entries on a page, where the console shows them.", 1, 1000)
    entries_seconds_max: float = tunable(
        10.0, "How long such a page may take: bookies may be away.", 0.1, 600
    )
    ledgers_a_page: int = tunable(50, "Ledgers on a page.", 1, 500)
