"""Whether the metadata may be acted on: not while it is an older copy that no operator has accepted (rule W8).

A ledger of which an older copy knows an older ensemble could be closed too early. Bookies that notice have the cluster
hold back (`metadata/backup/hold.py`); until one has looked, what any bookie that answers has seen of the store before
tells that it went back.
"""

from __future__ import annotations

import asyncio

from bookie.wire import LacReply
from metadata.backup import hold
from metadata.backup.hold import SeenRevision
from metadata.errors import MetadataRestored
from metadata.records.ledger_record import BookieRef

from ..cluster import Cluster
from ..errors import LedgerRecoveryFailed


async def check_accepted(cluster: Cluster, ledger_id: int) -> None:
    """Raises LedgerRecoveryFailed where the metadata is an older copy that nobody has accepted, and MetadataError."""
    try:
        await hold.check_accepted(cluster.store)
    except MetadataRestored as error:
        raise LedgerRecoveryFailed(ledger_id, str(error)) from error


class RevisionCheck:
    """Compares the metadata store with what bookies that answer have seen of it, as soon as they do: it rises again."""

    def __init__(self, cluster: Cluster, ledger_id: int) -> None:
        self._cluster = cluster
        self._ledger_id = ledger_id
        self._revision = 0
        self._comparing = asyncio.Lock()

    async def hear(self, bookie: BookieRef, reply: LacReply) -> None:
        """Raises LedgerRecoveryFailed where the store is at an earlier revision now, and MetadataError."""
        async with self._comparing:
            if reply.metadata_revision <= self._revision:
                return
            seen = SeenRevision(reply.metadata_revision, str(bookie))
            try:
                self._revision = await hold.check_not_rolled_back(self._cluster.store, seen)
            except MetadataRestored as error:
                raise LedgerRecoveryFailed(self._ledger_id, str(error)) from error
