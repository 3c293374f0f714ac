"""Says why there is no cluster where one is looked for, and what to do."""

from __future__ import annotations

from ..store import MetadataStore
from . import hold

NO_CLUSTER = "no cluster here: `bookledger bookie format` makes one; is the prefix of the URI right?"

BEING_RESTORED = (
    "a backup was being restored here: finish that first, with the same file (`bookledger metadata restore`)"
)

EMPTIED = (
    "the metadata of the cluster that was here is gone, as its bookies have noticed: stop all bookies and clients, put "
    "a backup in its place (`bookledger metadata restore`), and start the bookies again"
)


async def why_no_cluster(store: MetadataStore) -> str:
    """Of a store without a cluster's layout. Raises MetadataError."""
    begun = await hold.read(store)
    if begun is None:
        return NO_CLUSTER
    return BEING_RESTORED if begun.backup_ms else EMPTIED
