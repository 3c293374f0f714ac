"""One run's world: the log's metadata, the ledgers, and a client of the product's own for each program."""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import tenacity

from bookie.upkeep.logs import retention_rounds, silence_counts
from bookledger.cluster.rebuilding import logs as rebuilt_logs
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.elections import election, place
from ledgers.elections.election import ElectionClient
from ledgers.elections.place import Place
from ledgers.errors import LedgerError
from ledgers.logs import log_calls
from ledgers.logs.cursors import cursor, cursor_calls
from ledgers.logs.forks import forking
from ledgers.logs.log import Log
from ledgers.logs.log_calls import LogCalls
from ledgers.logs.writing import record_clock
from ledgers.logs.writing.log_writer import LogWriter
from ledgers.logs.writing.record_clock import RecordClock
from metadata import keys
from metadata.memory_store import Waker
from metadata.records import ledger_codec
from metadata.records.coordination import cursor_record, election_record
from metadata.records.ledger_record import Shape, Tombstone
from metadata.records.ledger_store import LedgerStore
from metadata.records.logs import log_codec, log_record
from metadata.records.logs.log_record import LogRecord, LogSettings
from metadata.records.logs.segment import Segment
from metadata.records.logs.segment_deletion import UnneededSegments
from tests.simulation.engine.loop import OWNER, VirtualLoop
from tests.simulation.shells.adapters import in_order
from tests.simulation.shells.metadata import VirtualMetadata, VirtualStore
from tests.simulation.shells.site import Site
from tests.simulation.shells.watch import Watch

from .actors import LogUser
from .clock_truth import ClockTruth
from .forking import ForkTruth
from .kept_truth import KeptTruth
from .leading import LedTruth
from .ledgers import LedgerCalls, Ledgers, ModelWriter
from .plan import Plan
from .probes import LogProbe
from .truth import Truth

if TYPE_CHECKING:
    from .keeping import BookieClocks
    from .shared_truth import SharedTruth

FIRST_NAME = "log0"
START_US = 1_700_000_000_000_000
ROUND_SECONDS = 0.5
TELL_MS = 500
"""Rounds of retention are as short as the runs."""

PENDING_BYTES_MAX = 1024 * 1024
PAGES_MAX = 1000
BOUND_US = 5_000_000
"""The clocks of these machines step by more."""


class MetadataWatch(Watch):
    """Sees every change: each record of a log is one chain, and no ledger is deleted that a log needs."""

    def __init__(self, site: LogSite) -> None:
        self._site = site

    def put(self, key: str, value: bytes) -> None:
        if key.startswith(keys.LOGS):
            log = log_codec.decode(key, value)
            self._site.truth.changed(log)
            if self._site.shared_truth is not None:
                self._site.shared_truth.made(log)
            if log.identity == self._site.identity:
                self._site.kept_truth.changed(log)
        elif key.startswith(keys.cursors(self._site.identity)):
            self._site.kept_truth.moved(key.rpartition("/")[2], cursor_record.decode(key, value).position)
        elif key.startswith(keys.ELECTIONS):
            self._site.led_truth.begun(election_record.decode(key, value).token)
        elif key.startswith(keys.LEDGERS):
            decoded = ledger_codec.decode(key, value)
            if isinstance(decoded, Tombstone):
                self._site.truth.deletes(self._site.ledgers.by_id(decoded.ledger_id))
                if self._site.plan.forking is not None:
                    self._site.fork_truth.deletes(self._site.ledgers.by_id(decoded.ledger_id))
        elif self._site.shared_truth is not None:
            self._site.shared_truth.put(key, value)

    def removed(self, key: str) -> None:
        """Of what is removed nothing is said; a deleted ledger leaves a tombstone."""


class LogSite(Site):
    """Everything that a run shares."""

    def __init__(self, plan: Plan, loop: VirtualLoop, *, tracing: bool) -> None:
        super().__init__(plan.seed, loop, plan.pace_seconds)
        self.world._tracing = tracing
        self.plan = plan
        self.store = VirtualMetadata(self, MetadataWatch(self))
        self.ledgers = Ledgers(self, self.store.data)
        self.ledgers.late_share = plan.one_end.late if plan.one_end else 0.0
        self.settings = LogSettings(
            Shape(1, 1, 1), roll_records=plan.roll_records, roll_seconds=plan.roll_seconds
        )
        self.identity = b""
        self.others: dict[bytes, str] = {}
        self.truth = Truth(self.world, self.record, self.segments)
        self.kept_truth = KeptTruth(self)
        self.led_truth = LedTruth(self)
        self.clock_truth = ClockTruth(self)
        self.fork_truth = ForkTruth(self)
        self.start_us = START_US
        self.shared_truth: SharedTruth | None = None
        self.clients: list[Client] = []
        self.clock_seconds_min = 0.0
        self.machine_seconds: defaultdict[str, float] = defaultdict(float)
        self.bookie_clocks: BookieClocks | None = None
        self.is_over = False
        self.doubts: tuple[str, ...] = ()
        """What could not be known of the log when metadata that went back was accepted."""
        self._names = 0

    def record(self) -> LogRecord:
        """The log's record as it stands, whoever knows it."""
        found = self.store.data.get(keys.log(self.identity), self.world.now)
        assert found is not None
        record = log_codec.decode(found.key, found.value)
        if record.paged_through:
            self.world.reached(LogProbe.PAGED)
        return record

    def segments(self) -> list[Segment]:
        """All of the log, those in pages too; none is left out where a page and the record have it."""
        prefix, now = keys.log_pages(self.identity), self.world.now
        pages = self.store.data.list_page(prefix, None, PAGES_MAX, now).items
        paged = [one for page in pages for one in log_codec.decode_page(page.key, page.value)]
        return [*paged, *self.record().segments]

    def log_name(self) -> str:
        return self.record().name if self.identity else FIRST_NAME

    def next_number(self) -> int:
        self._names += 1
        return self._names

    def client(self, name: str) -> Client:
        made = Client(self, name)
        self.clients.append(made)
        return made

    @contextmanager
    def documented(self, user: LogUser, what: str) -> Iterator[None]:
        """Errors in it are those that calls document."""
        try:
            yield
        except LedgerError as error:
            user.expected(what, error)

    def true_us(self) -> int:
        """What time it is, whatever clocks say."""
        return START_US + int(self.world.now * 1_000_000)

    def step_clock(self, seconds: float, machine: str = "") -> None:
        """Of one machine, or of all."""
        self.machine_seconds[machine] += seconds
        own = [seconds for name, seconds in self.machine_seconds.items() if name]
        least = self.machine_seconds[""] + min([0.0, *own])
        self.clock_seconds_min = min(least, self.clock_seconds_min)

    def clock_ms(self) -> int:
        return self.time_ns() // 1_000_000

    def time_ns(self) -> int:
        """The clock of everybody's machine, but for bookies'."""
        machine = OWNER.get("").partition(".")[0]
        ahead = self.machine_seconds[""] + (self.machine_seconds[machine] if machine else 0.0)
        return START_US * 1000 + int((self.world.now + ahead) * 1_000_000_000)


class Client(ElectionClient):
    """A client of the product over simulated seams, as one process has it."""

    def __init__(self, site: LogSite, name: str) -> None:
        self._site = site
        self.name = name
        self.is_dead = False
        self.told_end = 0
        self.chance = site.world.stream(name)
        self._store = VirtualStore(site.store, name)
        self.calls = LedgerCalls(site.ledgers, name)
        config = ClientConfig(pending_bytes_max=PENDING_BYTES_MAX)
        bookies: Any = None
        cluster = Cluster(
            self._store, LedgerStore(self._store), bookies, config, random.Random(f"{site.plan.seed} {name}")
        )
        calls: Any = self.calls
        self.logs = LogCalls(cluster, calls)
        self.settings = site.settings

    async def _connected(self) -> Cluster:
        return self.logs.cluster

    def die(self) -> None:
        """The process is gone: nothing of it runs, and nothing reaches it."""
        self._site.world.note("%s dies", self.name)
        self.is_dead = self.calls.is_dead = True
        self._site.world.reached(LogProbe.CRASHED)
        self._store.end()
        for task in self._site.loop.running_tasks(self.name):
            task.cancel()
        for timer in self._site.loop.pending_timers():
            is_on_its_way = getattr(timer._callback, "__self__", None) is self._site.world  # type: ignore[attr-defined]
            if not is_on_its_way and timer._context.get(OWNER, "") == self.name:  # type: ignore[attr-defined]
                timer.cancel()

    async def close(self) -> None:
        with suppress(LedgerError):
            await self.logs.close()
        await self._store.close()

    async def delete_stale(self, log: Log, stale: LogRecord) -> None:
        """As whoever restores the log next, long afterwards; a fork that is not named by it yet has nothing."""
        if any(one.identity == stale.identity for log in self._site.fork_truth.logs() for one in log.forks):
            with mock.patch.object(log_calls, "STALE_MS", -(10**12)):
                await self.logs._delete_stale(self._site.fork_truth.made_of(stale), log._ledgers)

    async def sweep(self) -> int:
        """An audit of all ledgers; how many it deleted."""
        if self._site.ledgers.is_held:
            return 0
        unneeded, count = UnneededSegments(self._store), 0
        async for found in LedgerStore(self._store).list():
            count += await unneeded.delete(found)
        return count


@contextmanager
def in_virtual_time(site: LogSite) -> Iterator[None]:
    """While it lasts: clocks and chance are the run's own, and pages are short."""

    async def nobody_tells(_: RecordClock) -> None:
        """As where no bookie tells the time."""

    clock, wall = SimpleNamespace(monotonic=site.loop.time), SimpleNamespace(time_ns=site.time_ns)
    before = random.getstate()
    random.seed(site.world.seed)
    with ExitStack() as stack:
        patched = mock.patch.object
        stack.enter_context(patched(tenacity, "time", clock))
        for module in (record_clock, log_calls, forking, cursor, cursor_calls, election, place):
            stack.enter_context(patched(module, "time", wall))
        for module in (log_record, rebuilt_logs, forking):
            stack.enter_context(patched(module, "PAGE_SEGMENTS", site.plan.page_segments))
        stack.enter_context(patched(forking, "FORK_PAGE_SEGMENTS", 2 * site.plan.page_segments))
        stack.enter_context(patched(retention_rounds, "ROUND_SECONDS", ROUND_SECONDS))
        stack.enter_context(patched(silence_counts, "TELL_MS", TELL_MS))
        if site.plan.clocks is None:
            stack.enter_context(patched(record_clock.RecordClock, "_ask", nobody_tells))
        else:
            stack.enter_context(patched(record_clock, "BOUND_US", BOUND_US))
            stack.enter_context(patched(record_clock, "ASK_SECONDS_MIN", 1.0))
        for product_class in (LogWriter, Waker, ModelWriter, Place):
            stack.enter_context(in_order(product_class))
        stack.callback(random.setstate, before)
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.WARNING)  # what goes wrong here is meant to
        yield
