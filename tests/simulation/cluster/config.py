"""Settings of clients, drawn."""

from __future__ import annotations

from ledgers.config import MIB, ClientConfig
from tests.simulation.engine.chance import Stream


def draw_config(chance: Stream) -> ClientConfig:
    """Settings at which more of the rare paths are taken than at the defaults."""
    return ClientConfig(
        pending_bytes_max=chance.choice((MIB, 32 * MIB)),
        lane_backlog_bytes_max=chance.choice((MIB, 64 * MIB)),
        window_bytes_max=chance.choice((MIB, 4 * MIB)),
        append_seconds_max=chance.choice((1.0, 5.0)),
        append_quorum_seconds_max=chance.choice((10.0, 60.0)),
        read_seconds_max=chance.choice((2.0, 10.0)),
        read_ahead_pages=chance.choice((1, 4)),
        idle_lac_seconds=chance.choice((0.05, 2.0, 30.0)),
        failed_bookie_seconds=chance.choice((1.0, 30.0)),
        long_poll_seconds=chance.choice((1.0, 10.0)),
    )
