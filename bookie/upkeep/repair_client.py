"""The client that a bookie uses to repair itself from the rest of the cluster.

The bookie imports no client: its caller passes an implementation of this protocol, such as
`ledgers.recovering.cluster_peers.ClusterPeers`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol

from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..wire.columnar_entries import Columns
from ..wire.errors import PeersFailed

__all__ = ["NoPeers", "Peers", "PeersFailed"]


class Peers(Protocol):
    """Reads entries from other replicas, and recovers ledgers. Belongs to one event loop."""

    def entries(
        self, record: LedgerRecord, first_entry: int, last_entry: int, *, without: BookieRef
    ) -> AsyncIterator[Columns]:
        """Yields all entries of [first_entry, last_entry] of a closed ledger, in order, from the other replicas.

        The pages are never empty, and as large as those of any read: at most 4 MiB from each bookie. The bookie
        `without` is never asked for anything, but another incarnation of the same name may be asked. Every CRC32C
        digest is verified. The key of an HMAC_SHA256 ledger is not known here, so the digests of its entries are not
        verified: only the checksums of a replica's log and the sealed message protect these entries, and the ledger's
        readers have to reject forged ones.

        Raises PeersFailed for the first entry that no other replica can return, after yielding all entries before it,
        and ValueError for a ledger that is not closed or a range outside it.
        """
        ...

    async def recover(self, ledger_id: int) -> LedgerRecord | None:
        """Fences, recovers and closes a ledger as opening it does; returns its closed record, or None if it is deleted.

        Does not change a closed ledger. Fences a writer that is still writing. Raises PeersFailed if the outcome is
        undecided, in which case the ledger stays in recovery. Also raises it for a ledger with a password, because its
        bookies do not let anyone without the password fence it; in that case nothing is changed.
        """
        ...

    async def why_unreachable(self, bookie: BookieRef) -> str:
        """Returns the reason why the bookie does not answer at the address that it advertises; "" if it answers. Raises
        MetadataError."""
        ...

    async def close(self) -> None:
        """Closes all connections; no call may be running. May be called twice."""
        ...


class NoPeers:
    """The peers of a standalone bookie: every fetch and recovery fails. Implements `Peers`."""

    async def entries(
        self, record: LedgerRecord, first_entry: int, last_entry: int, *, without: BookieRef
    ) -> AsyncGenerator[Columns, None]:
        del last_entry, without
        raise _alone(record.ledger_id, first_entry)
        yield  # makes this a generator

    async def recover(self, ledger_id: int) -> LedgerRecord | None:
        raise _alone(ledger_id)

    async def why_unreachable(self, bookie: BookieRef) -> str:
        """Returns "": no bookie is called, so none counts as unreachable."""
        del bookie
        return ""

    async def close(self) -> None:
        """Does nothing."""


def _alone(ledger_id: int, entry_id: int | None = None) -> PeersFailed:
    what = f"no entries of ledger {ledger_id} can be fetched, because this bookie was started without peers"
    return PeersFailed(ledger_id, what, "start it with `bookledger bookie run`", entry_id=entry_id)
