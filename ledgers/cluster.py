"""What every handle of a client shares."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from metadata.healing.marks import Marks
from metadata.home_process import HomeProcess
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

from .bookie_client import BookieClient
from .config import ClientConfig
from .creating.id_block import IdBlock
from .creating.known_bookies import KnownBookies
from .errors import ClientForked
from .later import Later
from .protocol.bookie_health import BookieHealth
from .turn import Turn

CHANGES_AT_ONCE_MAX = 256
"""Ledgers whose record a client changes at a time: where it has a hundred thousand open, all lose the same bookie."""


@dataclass(slots=True)
class Cluster:
    """What every handle of a client shares: the stores, the bookies, the settings, who failed lately."""

    store: MetadataStore
    ledgers: LedgerStore
    bookies: BookieClient
    config: ClientConfig
    rng: random.Random = field(default_factory=random.Random)
    health: BookieHealth = field(init=False)
    marks: Marks = field(init=False)
    known_bookies: KnownBookies = field(init=False)
    ids: IdBlock = field(init=False)
    idle_lacs: Later = field(init=False)
    is_closed: bool = False
    turn: Turn = field(default_factory=Turn)
    changing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CHANGES_AT_ONCE_MAX))
    home: HomeProcess = field(default_factory=lambda: HomeProcess(ClientForked))

    def __post_init__(self) -> None:
        self.health = BookieHealth(self.config)
        self.marks = Marks(self.store)
        self.known_bookies = KnownBookies(self.store)
        self.ids = IdBlock(self.store)
        self.idle_lacs = Later(self.config.idle_lac_seconds)

    def check_process(self) -> None:
        """Raises ClientForked in a child that was forked from the client's process."""
        self.home.check()

    def note_failure(self, bookie: BookieRef) -> None:
        self.health.failed(bookie, asyncio.get_running_loop().time())

    def note_slowness(self, bookie: BookieRef) -> None:
        self.health.was_slow(bookie, asyncio.get_running_loop().time())

    def slow_or_failed_lately(self) -> frozenset[BookieRef]:
        """Bookies for a reader to ask last."""
        return self.health.avoided_by_readers(asyncio.get_running_loop().time())

    def failed_lately(self) -> frozenset[BookieRef]:
        """Bookies to use only where there is no other."""
        return self.health.avoided(asyncio.get_running_loop().time())
