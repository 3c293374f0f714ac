"""Connection settings of an etcd cluster. The options have the same names as in the `etcd3` package."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from ..secret_file import read_bounded, read_password

TIMEOUT_SECONDS_DEFAULT = 5.0

MESSAGE_BYTES_MAX = 64 * 1024 * 1024
"""Maximum size of a reply from etcd. A larger page is requested again with fewer keys."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    # A dead peer is detected within 13 s. etcd drops clients that ping more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # By default, etcd closes the connection of a client that pings at other times than during a call or a watch.
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # Reconnect within a second to a member that comes back.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Retries are made by this client, not by gRPC.
    ("grpc.enable_retries", 0),
    # Stores share neither connections nor back-off, and http_proxy does not apply to etcd.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class EtcdConfig:
    """Endpoints, prefix, user, password file, and TLS files (paths of PEM files).

    Keys are stored as `prefix` + "/" + key. `timeout` is in seconds, and applies to one operation, including retries at
    other endpoints. TLS is used if `tls` or `ca_cert` is set; without `ca_cert`, gRPC's own root certificates are used.
    Raises ValueError for contradictory options.
    """

    endpoints: tuple[str, ...]
    prefix: str
    ca_cert: str | None = None
    cert_key: str | None = None
    cert_cert: str | None = None
    user: str | None = None
    password_file: str | None = None
    timeout: float = TIMEOUT_SECONDS_DEFAULT
    tls: bool = False

    def __post_init__(self) -> None:
        if not self.endpoints or not all(self.endpoints):
            raise ValueError("at least one endpoint HOST:PORT is required, and none may be empty")
        if not self.prefix.strip("/"):
            raise ValueError("a prefix is required; all keys are stored under it")
        if not 0 < self.timeout < float("inf"):
            raise ValueError(f"the timeout must be a number of seconds above 0, not {self.timeout:g}")
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password_file must be given together")
        if (self.cert_key is None) != (self.cert_cert is None):
            raise ValueError("cert_cert and cert_key must be given together")
        if self.cert_cert is not None and not self.uses_tls:
            raise ValueError("a client certificate requires TLS")

    @property
    def uses_tls(self) -> bool:
        return self.tls or self.ca_cert is not None

    @property
    def tls_files(self) -> list[str]:
        """The files that `read_credentials` reads."""
        return [one for one in (self.ca_cert, self.cert_key, self.cert_cert) if one is not None]

    def read_password(self) -> str | None:
        """Reads the user's password; None without a user. Raises OSError or ValueError for an unusable file."""
        if self.password_file is None:
            return None
        try:
            return read_password(self.password_file).decode()
        except UnicodeDecodeError:
            raise ValueError(
                f"{self.password_file} is not UTF-8 text, so it is not an etcd password"
            ) from None

    def read_credentials(self) -> grpc.ChannelCredentials | None:
        """Loads the TLS credentials; None for plain text. Raises OSError or ValueError for an unusable file."""
        if not self.uses_tls:
            return None
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca_cert),
            private_key=_read(self.cert_key),
            certificate_chain=_read(self.cert_cert),
        )


def _read(path: str | None) -> bytes | None:
    return None if path is None else read_bounded(path)
