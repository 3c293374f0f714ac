"""Versioned keys, compare-and-swap, and the records kept under them."""

from .errors import BadMetadataUri, MetadataError
from .open import open_store
from .store import MetadataStore

__all__ = ["BadMetadataUri", "MetadataError", "MetadataStore", "open_store"]
