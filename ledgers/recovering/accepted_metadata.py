"""Whether the metadata may be acted on: not while it is an older copy that no operator has accepted (rule W8).

A ledger of which an older copy knows an older ensemble could be closed too early. Bookies that notice have the cluster
hold back (`metadata/backup/hold.py`); until one has looked, what any bookie that is asked has seen of the store before
tells that it went back.
"""

from __future__ import annotations

from bookie.wire import LacReply
from metadata.backup import hold
from metadata.backup.hold import NEVER_SEEN, SeenRevision
from metadata.errors import MetadataRestored
from metadata.records.ledger_record import BookieRef

from ..cluster import Cluster
from ..errors import LedgerRecoveryFailed


async def check_accepted(cluster: Cluster, ledger_id: int, seen: SeenRevision = NEVER_SEEN) -> None:
    """Raises LedgerRecoveryFailed where the metadata is an older copy that nobody has accepted, and MetadataError.

    `seen`: see `LatestRevision`.
    """
    try:
        await hold.check_accepted(cluster.store, seen)
    except MetadataRestored as error:
        raise LedgerRecoveryFailed(ledger_id, str(error)) from error


class LatestRevision:
    """The latest revision at which bookies that were asked have seen the metadata store, and who has."""

    def __init__(self) -> None:
        self.seen = NEVER_SEEN

    def hear(self, bookie: BookieRef, reply: LacReply) -> None:
        self.seen = max(self.seen, SeenRevision(reply.metadata_revision, str(bookie)))
