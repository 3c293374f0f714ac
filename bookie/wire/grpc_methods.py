"""gRPC method names, limits and channel settings that both ends must share."""

from __future__ import annotations

SERVICE = "bookledger.bookie.Bookie"
INFO = f"/{SERVICE}/Info"
MAINTAIN = f"/{SERVICE}/Maintain"
NOTES = f"/{SERVICE}/Notes"

HEALTH_SERVICE = "grpc.health.v1.Health"
REFLECTION_SERVICE = "grpc.reflection.v1alpha.ServerReflection"
HEALTH, HEALTH_WATCH = f"/{HEALTH_SERVICE}/Check", f"/{HEALTH_SERVICE}/Watch"
REFLECTION = f"/{REFLECTION_SERVICE}/ServerReflectionInfo"
"""Standard gRPC services: health checks and reflection."""

MESSAGE_BYTES_MAX = 8 * 1024 * 1024
"""Maximum size of a message in either direction: the largest entry, or a full frame plus one entry, with room to spare.
"""

KEEPALIVE_MS = 10_000
"""Interval at which a client probes an idle connection; the server allows probes at this rate."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A restarted bookie is back within a second: reconnect sooner than gRPC does by default.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Each client object has its own connections: closing one client never disturbs another.
    ("grpc.use_local_subchannel_pool", 1),
    # http_proxy in the environment is not meant for connections within the cluster.
    ("grpc.enable_http_proxy", 0),
)

CALLS_OF_ALL_MAX = 64
CALLS_OF_A_CONNECTION_MAX = 16
REQUEST_BYTES_MAX = 64 * 1024
METADATA_BYTES_MAX = 8 * 1024
GREETING_MS_MAX = 5_000
IDLE_MS_MAX = 600_000
"""Limits for gRPC clients, which make only a few short calls. Idle connections are closed."""

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_concurrent_streams", CALLS_OF_A_CONNECTION_MAX),
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.server_handshake_timeout_ms", GREETING_MS_MAX),
    ("grpc.max_connection_idle_ms", IDLE_MS_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    # Otherwise a second bookie could bind the same port and silently share the connections.
    ("grpc.so_reuseport", 0),
)
