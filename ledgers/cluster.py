"""What every handle of a client shares."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from metadata.ledger_record import BookieRef
from metadata.ledger_store import LedgerStore
from metadata.store import MetadataStore

from .bookie_client import BookieClient
from .config import ClientConfig


@dataclass(slots=True)
class Cluster:
    """What every handle of a client shares: the stores, the bookies, the settings, who failed lately."""

    store: MetadataStore
    ledgers: LedgerStore
    bookies: BookieClient
    config: ClientConfig
    rng: random.Random = field(default_factory=random.Random)
    failed_at: dict[BookieRef, float] = field(default_factory=dict)

    def note_failure(self, bookie: BookieRef) -> None:
        self.failed_at[bookie] = asyncio.get_running_loop().time()

    def failed_lately(self) -> frozenset[BookieRef]:
        """Bookies to use only where there is no other; older failures are forgotten."""
        oldest = asyncio.get_running_loop().time() - self.config.failed_bookie_seconds
        self.failed_at = {bookie: at for bookie, at in self.failed_at.items() if at > oldest}
        return frozenset(self.failed_at)
