"""Versioned keys, compare-and-swap, and the records kept under them."""

from .open import open_store

__all__ = ["open_store"]
