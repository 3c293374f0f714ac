"""Explains why no cluster was found, and how to proceed."""

from __future__ import annotations

from ..store import MetadataStore
from . import hold

NO_CLUSTER = (
    "there is no cluster here: check the URI's prefix, or create a cluster with `bookledger bookie format`"
)


async def why_no_cluster(store: MetadataStore) -> str:
    """Returns the reason why a store has no cluster layout, and how to proceed. Raises MetadataError."""
    begun = await hold.read(store)
    return NO_CLUSTER if begun is None else begun.why_no_cluster
