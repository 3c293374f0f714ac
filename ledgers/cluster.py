"""State that all handles of a client share: stores, bookies, settings, bookie health, permissions."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bookie.wire import LacReply, LacRequest, ReadReply, ReadRequest
from bookie.wire.trust.identity import Identity, Peer
from bookie.wire.trust.roles import Right, Role
from metadata.fork_safety.fork_guard import ForkGuard, NotPickled
from metadata.healing.marks import Marks
from metadata.rate_limit import LogRateLimit
from metadata.records.ledger_record import JOURNAL, OWNER, BookieRef, LedgerRecord, is_of
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

from .bookie_client import BookieClient
from .cold.cold_reader import ColdCache
from .config import ClientConfig
from .creating.id_block import IdBlock
from .creating.known_bookies import KnownBookies
from .errors import ClientClosed, ClientForked, LedgerError
from .integrity.stretching import Stretching
from .loop_batching import LoopBatching
from .protocol.bookie_health import BookieFailureHistory
from .shared_timer import SharedTimer

if TYPE_CHECKING:
    from .observing.append_metrics import WriterMetrics
    from .observing.client_metrics import ClientMetrics
    from .observing.client_tracing import ClientTraces, LaneTraces, WriterTraces
    from .observing.log_metrics import LogMetrics

BEGUN_WITHOUT_SECONDS_MIN = 10.0
"""Minimum time between two of a client's log lines about ledgers that start with a bookie missing."""

CHANGES_AT_ONCE_MAX = 256
"""Maximum number of ledgers whose records a client changes at the same time: a hundred thousand open ledgers may all
lose the same bookie."""


class ElectionPlace(Protocol):
    """A place in an election's queue; its candidate either leads or waits."""

    async def leave(self, why: str) -> None: ...


@dataclass(slots=True)
class Cluster(NotPickled):
    """State that all handles of a client share: stores, bookies, settings, health of the bookies.

    `identity`: how the client identifies itself to bookies, if it has certificates.
    """

    store: MetadataStore
    ledgers: LedgerStore
    bookies: BookieClient
    config: ClientConfig
    rng: random.Random = field(
        default_factory=lambda: random.Random()
    )  # looked up late, so that tests can replace it
    health: BookieFailureHistory = field(init=False)
    marks: Marks = field(init=False)
    known_bookies: KnownBookies = field(init=False)
    ids: IdBlock = field(init=False)
    idle_lacs: SharedTimer = field(init=False)
    is_closed: bool = False
    metrics: ClientMetrics | None = field(init=False)
    traces: ClientTraces | None = field(init=False)
    identity: Identity | None = None
    turn: LoopBatching = field(default_factory=LoopBatching)
    changing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CHANGES_AT_ONCE_MAX))
    stretching: Stretching = field(default_factory=Stretching)
    begun_without: LogRateLimit = field(default_factory=lambda: LogRateLimit(BEGUN_WITHOUT_SECONDS_MIN))
    home: ForkGuard = field(default_factory=lambda: ForkGuard(ClientForked))
    places: set[ElectionPlace] = field(default_factory=set)
    cold: ColdCache = field(default_factory=ColdCache)

    def __post_init__(self) -> None:
        self.metrics = _metrics(self.config)
        self.traces = _traces(self.config)
        self.health = BookieFailureHistory(self.config)
        self.marks = Marks(self.store)
        self.known_bookies = KnownBookies(self.store)
        self.ids = IdBlock(self.store)
        self.idle_lacs = SharedTimer(self.config.idle_lac_seconds)

    def why_failed(self, error: LedgerError) -> LedgerError:
        """Returns the error of a call, or ClientClosed if the client was closed during the call."""
        return ClientClosed() if self.is_closed else error

    async def leave_queues(self) -> None:
        """Resigns from every election that the client leads or is waiting to lead, so that the next candidates need not
        wait for the client's leases to expire."""
        places = list(self.places)
        await asyncio.gather(*(place.leave("the client was closed") for place in places))

    @property
    def owner(self) -> str:
        """The only owner whose ledgers the client may use, and to whom the ledgers that it creates belong; empty if
        there is no such restriction."""
        return self.identity.owner if self.identity else ""

    def why_not(self, record: LedgerRecord, *rights: Right) -> str:
        """Returns why bookies will refuse the client these rights on the ledger; empty if they grant them."""
        if self.identity is None:
            return ""
        if not is_of(record.custom_metadata.get(OWNER, b""), self.owner):
            return f"it does not belong to {self.owner!r}, and {self.identity} may use only the ledgers of that owner"
        return next((why for right in rights if (why := self._me.may_not(right))), "")

    @property
    def own_bookie(self) -> BookieRef | None:
        """The bookie in the client's process, if there is one."""
        return None if self.config.own_bookie is None else self.config.own_bookie.bookie

    @property
    def _me(self) -> Peer:
        return Peer.of("", self.identity)

    def why_not_created(self) -> str:
        """Returns why the client may not create ledgers (bookies would refuse its appends); empty if it may."""
        return self._me.may_not(Right.APPEND)

    def why_not_deleted(self, record: LedgerRecord, *, is_proven: bool) -> str:
        """Returns why the client may not delete the ledger; empty if it may. Bookies are not asked: this is the only
        check. `is_proven`: the client has presented the ledger's password.

        Admins may delete; the roles journal and bookie may delete journal segments; a writer may delete if it is the
        owner or knows the password.
        """
        if why := self.why_not(record):
            return why
        mine = (
            is_proven
            or bool(self.owner)
            or (
                JOURNAL in record.custom_metadata
                and self.identity is not None
                and self.identity.role in (Role.JOURNAL, Role.BOOKIE)  # a bookie may also be a JournalNode
            )
        )
        return self.why_not(record, Right.APPEND if mine else Right.DELETE)

    @property
    def who(self) -> str:
        """The client's name for the audit log."""
        return str(self.identity or "")

    def writer_metrics(self) -> WriterMetrics | None:
        """Returns the metrics of a new writer; None if the client has no metrics."""
        if self.metrics is None:
            return None
        from .observing.append_metrics import WriterMetrics

        return WriterMetrics(self.metrics.appends, self.config.pending_bytes_max)

    @property
    def log_metrics(self) -> LogMetrics | None:
        """The metrics of the client's logs; None if the client has no metrics."""
        return None if self.metrics is None else self.metrics.logs

    def writer_traces(self, ledger_id: int) -> WriterTraces | None:
        """Returns the spans of a new writer; None if the client does not trace."""
        if self.traces is None:
            return None
        from .observing.client_tracing import WriterTraces

        return WriterTraces(self.traces, ledger_id)

    def lane_traces(self, ledger_id: int) -> LaneTraces | None:
        """Returns the spans of lanes opened for the current operation; None if the client does not trace."""
        if self.traces is None:
            return None
        from .observing.client_tracing import lanes_of_current

        return lanes_of_current(self.traces, ledger_id)

    async def read(self, bookie: BookieRef, request: ReadRequest) -> ReadReply:
        """Reads from one bookie, with a span if the client traces."""
        if self.traces is None:
            return await self.bookies.read(bookie, request)
        with self.traces.asking(bookie, request) as traced:
            return await self.bookies.read(bookie, traced)

    async def fence(self, bookie: BookieRef, request: LacRequest) -> LacReply:
        """Fences one bookie and reads its last-add-confirmed, with a span if the client traces."""
        if self.traces is None:
            return await self.bookies.last_add_confirmed(bookie, request)
        with self.traces.asking(bookie, request) as traced:
            return await self.bookies.last_add_confirmed(bookie, traced)

    def check_process(self) -> None:
        """Raises ClientForked in a child forked from the client's process."""
        self.home.check()

    def note_failure(self, bookie: BookieRef) -> None:
        self.health.failed(bookie, asyncio.get_running_loop().time())
        if self.metrics is not None:
            self.metrics.failed_bookies.inc()

    def note_slowness(self, bookie: BookieRef) -> None:
        self.health.was_slow(bookie, asyncio.get_running_loop().time())

    def slow_or_failed_lately(self) -> frozenset[BookieRef]:
        """Returns the bookies that a reader should ask last."""
        return self.health.avoided_by_readers(asyncio.get_running_loop().time())

    def failed_lately(self) -> frozenset[BookieRef]:
        """Returns the bookies to use only if there are no others."""
        return self.health.avoided(asyncio.get_running_loop().time())


def _metrics(config: ClientConfig) -> ClientMetrics | None:
    """Returns the client's metrics. Imports the metrics code only if metrics are enabled."""
    if config.metrics is None:
        return None
    from .observing.client_metrics import metrics_in

    return metrics_in(config.metrics)


def _traces(config: ClientConfig) -> ClientTraces | None:
    """Returns the client's spans. Imports OpenTelemetry only if tracing is enabled."""
    if config.tracing is None:
        return None
    from .observing.client_tracing import ClientTraces

    return ClientTraces(config.tracing)


def counted(store: MetadataStore, config: ClientConfig) -> MetadataStore:
    """Wraps the store to count its calls, if the client has metrics."""
    metrics = _metrics(config)
    if metrics is None:
        return store
    from metadata.counting.counting_store import CountingStore

    return CountingStore(store, metrics.metadata)
