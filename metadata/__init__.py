"""Versioned keys, compare-and-swap, and the records kept under them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import BadMetadataUri, MetadataError
    from .open import open_store
    from .store import MetadataStore

__all__ = ["BadMetadataUri", "MetadataError", "MetadataStore", "open_store"]

_HOMES = {"open_store": "metadata.open", "MetadataStore": "metadata.store"}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: the stores bring gRPC, which errors and keys do not need."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "metadata.errors")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
