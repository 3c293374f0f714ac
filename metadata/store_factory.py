"""Opens a metadata store by its URI.

etcd://HOST:PORT[,HOST:PORT...]/PREFIX[?OPTIONS]    etcds:// for TLS
    user=, password_file=, ca_cert=, cert_cert=, cert_key=, timeout=SECONDS
sqlite:///ABSOLUTE/PATH.db
memory://NAME                                       in this process only, for tests
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from urllib.parse import SplitResult

from .errors import BadMetadataUri
from .memory_store import MemoryData, MemoryStore
from .sqlite.sqlite_uri import path_in, uri_of
from .sqlite.store import SqliteStore
from .store import MetadataStore
from .uris import split

_memory_by_name: dict[str, MemoryData] = {}


VARIABLE = "BOOKLEDGER_METADATA"
"""Environment variable that contains the metadata URI."""

UriOrPath = str | os.PathLike[str]
"""A metadata URI, or the path of an SQLite file."""

HOW_TO_WRITE_IT = "write etcd://HOST:PORT[,HOST:PORT...]/PREFIX or sqlite:///PATH/TO/FILE.db"


async def open_store(uri: str, *, create: bool = False) -> MetadataStore:
    """Opens the store at `uri`; the caller closes it. Raises BadMetadataUri, which states the problem.

    An SQLite file is opened at once, and must exist unless `create` is given: a mistyped path must not look like a
    cluster without ledgers. etcd is not contacted before the first call, so a cluster that is briefly down is not an
    error here.
    """
    with _translated_errors(uri):
        store = _maker(split(uri), create=create)()
        if isinstance(store, SqliteStore):
            await _opened(store)
        return store


@asynccontextmanager
async def opened_store(uri: str, *, create: bool = False) -> AsyncIterator[MetadataStore]:
    """Opens a store as `open_store` does, and closes it at the end of the block."""
    store = await open_store(uri, create=create)
    try:
        yield store
    finally:
        await store.close()


def uri_in(given: UriOrPath | None) -> str:
    """Returns the metadata URI that a caller gave. A path means an SQLite file; None means the value of
    BOOKLEDGER_METADATA.

    Raises BadMetadataUri if there is no URI, TypeError if `given` is neither a string nor a path.
    """
    if given is None and not (given := os.environ.get(VARIABLE)):
        raise BadMetadataUri("", f"none was given, and {VARIABLE} is not set; {HOW_TO_WRITE_IT}")
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"a metadata URI is a str or a path, not {type(given).__name__}")
    return given if isinstance(given, str) else uri_of(given)


def check_uri(uri: str) -> None:
    """Raises BadMetadataUri for a URI that `open_store` would refuse. Contacts nothing, and opens no store."""
    with _translated_errors(uri):
        _maker(split(uri), create=False)


@contextmanager
def _translated_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise BadMetadataUri(uri, f"{error}; {HOW_TO_WRITE_IT}") from error
    except OSError as error:
        raise BadMetadataUri(uri, f"cannot read {error.filename}: {error.strerror}") from error


def _maker(parts: SplitResult, *, create: bool) -> Callable[[], MetadataStore]:
    """Returns a factory of the store. Raises ValueError for an invalid URI, OSError if a file that the URI refers to
    cannot be read."""
    match parts.scheme:
        case "etcd" | "etcds":
            _refuse_fragment(parts)
            return _etcd_maker(parts)
        case "sqlite":
            _refuse_fragment(parts)
            return partial(SqliteStore, path_in(parts), create=create)
        case "memory":
            name = _memory_name(parts)
            return lambda: MemoryStore(_memory_by_name.setdefault(name, MemoryData()))
        case "":
            raise ValueError("it has no scheme")
        case scheme:
            raise ValueError(f"the scheme {scheme!r} is not known")


def _etcd_maker(parts: SplitResult) -> Callable[[], MetadataStore]:
    """Imports etcd's store lazily: gRPC takes longer to load than the rest of a short command takes to run."""
    from .etcd.etcd_uri import config_in
    from .etcd.store import EtcdStore

    return partial(EtcdStore, config_in(parts))


async def _opened(store: SqliteStore) -> None:
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise


def _memory_name(parts: SplitResult) -> str:
    _refuse_fragment(parts)
    if not parts.netloc or parts.path or parts.query:
        raise ValueError("write memory://NAME with nothing after the name")
    return parts.netloc


def _refuse_fragment(parts: SplitResult) -> None:
    if parts.fragment:
        raise ValueError("it contains a '#'; write it as %23")
