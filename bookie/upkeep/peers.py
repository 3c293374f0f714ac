"""The client that a bookie needs to repair itself from the rest of the cluster.

The bookie imports no client: its caller hands in an implementation of this protocol, such as
`ledgers.recovering.peers.ClusterPeers`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol

from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..wire.columns import Columns
from ..wire.errors import PeersFailed

__all__ = ["NoPeers", "Peers", "PeersFailed"]


class Peers(Protocol):
    """Reads entries from other replicas, and recovers ledgers. Belongs to one event loop."""

    def entries(
        self, record: LedgerRecord, first_entry: int, last_entry: int, *, without: BookieRef
    ) -> AsyncIterator[Columns]:
        """All entries of [first_entry, last_entry] of a closed ledger, in order, from the other replicas.

        They come in pages that are never empty and take about as much as a page of any read, 4 MiB from
        each bookie asked at most. `without` is never asked for anything; another incarnation of its
        name is. Every CRC32C digest is verified. The key of an HMAC_SHA256 ledger is not known here: its
        entries come as a replica's checksummed log and sealed message give them, unverified, and it
        is for the ledger's readers to refuse what was forged.

        Raises PeersFailed for the first entry that no other replica can give, once all before it have been
        given, and ValueError for a ledger that is not closed or a range outside it.
        """
        ...

    async def recover(self, ledger_id: int) -> LedgerRecord | None:
        """Fences, recovers and closes a ledger as opening it does; its closed record, or None where it is deleted.

        A closed one is left as it is. A writer that goes on is fenced. Raises PeersFailed where the outcome is
        undecided, and the ledger stays in recovery; also for a ledger with a password, whose bookies let nobody else
        fence it, and nothing is touched then.
        """
        ...

    async def why_unreachable(self, bookie: BookieRef) -> str:
        """Why the bookie does not answer at the address it advertises; "" where it does. Raises MetadataError."""
        ...

    async def close(self) -> None:
        """Ends all connections, once nobody asks any more. May be called twice."""
        ...


class NoPeers:
    """Peers of a standalone bookie: every fetch and recovery fails. Implements `Peers`."""

    async def entries(
        self, record: LedgerRecord, first_entry: int, last_entry: int, *, without: BookieRef
    ) -> AsyncGenerator[Columns, None]:
        del last_entry, without
        raise _alone(record.ledger_id, first_entry)
        yield  # what makes it a generator

    async def recover(self, ledger_id: int) -> LedgerRecord | None:
        raise _alone(ledger_id)

    async def why_unreachable(self, bookie: BookieRef) -> str:
        """Empty: without a call no bookie counts as unreachable."""
        del bookie
        return ""

    async def close(self) -> None:
        """Does nothing."""


def _alone(ledger_id: int, entry_id: int | None = None) -> PeersFailed:
    what = f"nothing of ledger {ledger_id} can be fetched: this bookie was started without the others"
    return PeersFailed(ledger_id, what, "start it with `bookledger bookie run`", entry_id=entry_id)
