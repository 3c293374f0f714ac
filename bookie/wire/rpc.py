"""Method names and channel settings that both ends must share."""

from __future__ import annotations

SERVICE = "bookledger.bookie.Bookie"
APPEND = f"/{SERVICE}/Append"
READ = f"/{SERVICE}/Read"
LAST_ADD_CONFIRMED = f"/{SERVICE}/LastAddConfirmed"
HOLDINGS = f"/{SERVICE}/Holdings"
INFO = f"/{SERVICE}/Info"
MAINTAIN = f"/{SERVICE}/Maintain"

MESSAGE_BYTES_MAX = 8 * 1024 * 1024
"""Largest message of either direction: the largest entry, or a full frame and one entry more, with room."""

KEEPALIVE_MS = 10_000
"""An idle connection is probed this often; the server allows what the client does."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A bookie that restarts is back within a second; do not sit out gRPC's long reconnect pause.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Each client object has connections of its own: closing one never disturbs another.
    ("grpc.use_local_subchannel_pool", 1),
    # http_proxy in the environment is for the outside world.
    ("grpc.enable_http_proxy", 0),
)

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    # Without this a second bookie would bind the same port and share the connections in silence.
    ("grpc.so_reuseport", 0),
)
