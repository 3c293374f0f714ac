"""Metadata: versioned keys with compare-and-swap, leases and watches, and the records kept under them."""

import os
from typing import TYPE_CHECKING

from .public_names import lazily

if TYPE_CHECKING:
    from .errors import (
        BadMetadataUri as BadMetadataUri,
        BadRecord as BadRecord,
        KeyExists as KeyExists,
        LeaseLost as LeaseLost,
        MetadataError as MetadataError,
        NoSuchKey as NoSuchKey,
        OutcomeUnknown as OutcomeUnknown,
        StoreRefused as StoreRefused,
        StoreUnavailable as StoreUnavailable,
        ValueTooLarge as ValueTooLarge,
        VersionConflict as VersionConflict,
        WatchCompacted as WatchCompacted,
    )
    from .store_factory import open_store as open_store, opened_store as opened_store
    from .settings.settings_file import BadSettings as BadSettings, metadata_uri_of as metadata_uri_of
    from .store import (
        EventKind as EventKind,
        Lease as Lease,
        MetadataStore as MetadataStore,
        Page as Page,
        Versioned as Versioned,
        WatchEvent as WatchEvent,
    )

# Set before gRPC is loaded: gRPC's own fork handlers fail in a process with an event loop, and some of them crash the
# child (even one that `subprocess` forks to run a program). See `metadata.fork_safety.forked_grpc`.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

__getattr__ = lazily(__name__)


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__getattr__("__all__")})
