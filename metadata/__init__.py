"""Metadata: versioned keys with compare-and-swap, leases and watches, and the records kept under them."""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import (
        BadMetadataUri,
        BadRecord,
        KeyExists,
        LeaseLost,
        MetadataError,
        NoSuchKey,
        OutcomeUnknown,
        StoreRefused,
        StoreUnavailable,
        ValueTooLarge,
        VersionConflict,
        WatchCompacted,
    )
    from .open import open_store
    from .settings.file import BadSettings, metadata_uri_of
    from .store import EventKind, Lease, MetadataStore, Page, Versioned, WatchEvent

__all__ = [
    "BadMetadataUri",
    "BadRecord",
    "BadSettings",
    "EventKind",
    "KeyExists",
    "Lease",
    "LeaseLost",
    "MetadataError",
    "MetadataStore",
    "NoSuchKey",
    "OutcomeUnknown",
    "Page",
    "StoreRefused",
    "StoreUnavailable",
    "ValueTooLarge",
    "VersionConflict",
    "Versioned",
    "WatchCompacted",
    "WatchEvent",
    "metadata_uri_of",
    "open_store",
]

# Set before gRPC is loaded: its own fork handlers fail in a process with an event loop, and some of them crash the
# child (also one that `subprocess` forks to run a program). See `metadata.fork_safety.forked_grpc`.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

_IN_STORE = ("EventKind", "Lease", "MetadataStore", "Page", "Versioned", "WatchEvent")
_HOMES = {
    "open_store": "metadata.open",
    **dict.fromkeys(("BadSettings", "metadata_uri_of"), "metadata.settings.file"),
    **dict.fromkeys(_IN_STORE, "metadata.store"),
}


def __getattr__(name: str) -> Any:
    """Imports a public name lazily: the stores bring gRPC, which errors and keys do not need."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "metadata.errors")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
