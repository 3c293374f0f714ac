"""Explains why no cluster was found, and how to proceed."""

from __future__ import annotations

from ..store import MetadataStore
from . import hold

NO_CLUSTER = "no cluster here: `bookledger bookie format` makes one; is the prefix of the URI right?"


async def why_no_cluster(store: MetadataStore) -> str:
    """Returns the reason for a store without a cluster's layout. Raises MetadataError."""
    begun = await hold.read(store)
    return NO_CLUSTER if begun is None else begun.why_no_cluster
