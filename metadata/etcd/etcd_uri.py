"""Parses etcd URIs: etcd://HOST:PORT[,HOST:PORT...]/PREFIX?OPTION=VALUE."""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from .config import TIMEOUT_SECONDS_DEFAULT, EtcdConfig

ETCD_PORT_DEFAULT = 2379
ETCD_OPTIONS = frozenset({"user", "password_file", "ca_cert", "cert_cert", "cert_key", "timeout"})


def config_in(parts: SplitResult) -> EtcdConfig:
    """Parses the URI. Raises ValueError for an invalid one, OSError for a file that cannot be read."""
    if "@" in parts.netloc:
        raise ValueError("specify the user as ?user=NAME&password_file=PATH, not before the host")
    options = _options(parts)
    tls = parts.scheme == "etcds"
    if not tls and options.keys() & {"ca_cert", "cert_cert", "cert_key"}:
        raise ValueError("certificates require TLS; use an etcds:// URL")
    config = EtcdConfig(
        endpoints=tuple(_endpoint(text) for text in parts.netloc.split(",")),
        prefix=unquote(parts.path).strip("/"),
        ca_cert=options.get("ca_cert"),
        cert_key=options.get("cert_key"),
        cert_cert=options.get("cert_cert"),
        user=options.get("user"),
        password_file=options.get("password_file"),
        timeout=_seconds(options.get("timeout")),
        tls=tls,
    )
    config.read_password()
    return config


def _options(parts: SplitResult) -> dict[str, str]:
    pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    for name, value in pairs:
        if name not in ETCD_OPTIONS:
            raise ValueError(
                f"option {name!r} is not known; the options are {', '.join(sorted(ETCD_OPTIONS))}"
            )
        if not value:
            raise ValueError(f"option {name!r} has no value")
    if len(dict(pairs)) != len(pairs):
        raise ValueError("an option is specified twice")
    return dict(pairs)


def _endpoint(text: str) -> str:
    parts = urlsplit(f"//{text}")
    # `port` raises ValueError if it is not a number between 0 and 65535.
    if not parts.hostname or parts.port == 0:
        raise ValueError(f"{text!r} is not HOST:PORT")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{ETCD_PORT_DEFAULT if parts.port is None else parts.port}"


def _seconds(text: str | None) -> float:
    if text is None:
        return TIMEOUT_SECONDS_DEFAULT
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"timeout={text} is not a number of seconds") from None
