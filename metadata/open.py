"""From a metadata URI to a metadata store.

etcd://HOST:PORT[,HOST:PORT...]/PREFIX[?OPTIONS]    etcds:// for TLS
    user=, password_file=, ca_cert=, cert_cert=, cert_key=, timeout=SECONDS
sqlite:///ABSOLUTE/PATH.db
memory://NAME                                       in this process only, for tests
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from .errors import BadMetadataUri
from .etcd.config import TIMEOUT_SECONDS_DEFAULT, EtcdConfig
from .etcd.store import EtcdStore
from .memory import MemoryData, MemoryStore
from .sqlite.store import SqliteStore
from .sqlite.uri import path_in
from .store import MetadataStore

ETCD_PORT_DEFAULT = 2379
ETCD_OPTIONS = frozenset({"user", "password_file", "ca_cert", "cert_cert", "cert_key", "timeout"})

_memory_by_name: dict[str, MemoryData] = {}


HOW_TO_WRITE_IT = "write etcd://HOST:PORT[,HOST:PORT...]/PREFIX or sqlite:///PATH/TO/FILE.db"


async def open_store(uri: str, *, create: bool = False) -> MetadataStore:
    """The store that `uri` names; `close` it when done. Raises BadMetadataUri naming the problem.

    An SQLite file is opened at once, and must be there unless `create` is given: a mistyped path must
    not look like a cluster without ledgers. etcd is not contacted before the first call, so a cluster
    that is down for the moment is no error here.
    """
    try:
        parts = urlsplit(uri)
        match parts.scheme:
            case "etcd" | "etcds":
                return EtcdStore(_etcd_config(parts))
            case "sqlite":
                _refuse_fragment(parts)
                return await _opened(SqliteStore(path_in(parts), create=create))
            case "memory":
                return MemoryStore(_memory_by_name.setdefault(_memory_name(parts), MemoryData()))
            case "":
                raise ValueError("it has no scheme")
            case scheme:
                raise ValueError(f"the scheme {scheme!r} is not known")
    except ValueError as error:
        raise BadMetadataUri(uri, f"{error}; {HOW_TO_WRITE_IT}") from error
    except OSError as error:
        raise BadMetadataUri(uri, f"cannot read {error.filename}: {error.strerror}") from error


async def _opened(store: SqliteStore) -> SqliteStore:
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store


def _etcd_config(parts: SplitResult) -> EtcdConfig:
    if "@" in parts.netloc:
        raise ValueError("a user belongs into ?user=NAME&password_file=PATH, not before the host")
    options = _options(parts)
    tls = parts.scheme == "etcds"
    if not tls and options.keys() & {"ca_cert", "cert_cert", "cert_key"}:
        raise ValueError("certificates are for TLS; write etcds://")
    password_file = options.get("password_file")
    return EtcdConfig(
        endpoints=tuple(_endpoint(text) for text in parts.netloc.split(",")),
        prefix=unquote(parts.path).strip("/"),
        ca_cert=options.get("ca_cert"),
        cert_key=options.get("cert_key"),
        cert_cert=options.get("cert_cert"),
        user=options.get("user"),
        password=None if password_file is None else Path(password_file).read_text().rstrip("\r\n"),
        timeout=_seconds(options.get("timeout")),
        tls=tls,
    )


def _options(parts: SplitResult) -> dict[str, str]:
    _refuse_fragment(parts)
    pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    for name, value in pairs:
        if name not in ETCD_OPTIONS:
            raise ValueError(
                f"option {name!r} is not known; the options are {', '.join(sorted(ETCD_OPTIONS))}"
            )
        if not value:
            raise ValueError(f"option {name!r} has no value")
    if len(dict(pairs)) != len(pairs):
        raise ValueError("an option stands there twice")
    return dict(pairs)


def _endpoint(text: str) -> str:
    parts = urlsplit(f"//{text}")
    # `port` raises ValueError where it is no number between 0 and 65535.
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


def _memory_name(parts: SplitResult) -> str:
    _refuse_fragment(parts)
    if not parts.netloc or parts.path or parts.query:
        raise ValueError("write memory://NAME, and nothing after the name")
    return parts.netloc


def _refuse_fragment(parts: SplitResult) -> None:
    if parts.fragment:
        raise ValueError("it holds a '#'; write it as %23")
