"""Measures what metrics cost bulk appends: the same appends with all metrics and with none, in turns, in one run.

With: bookies count and time, /metrics of each is scraped after every five seconds of work, and the client counts into a
registry. Without: bookies and client count nothing. Both append to the same bookies, which are switched over between
the turns: two clusters, each with processes and files of its own, differ by some percent whatever they count. Turns are
of a fraction of a second, so that other load on the machine slows both.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from bookie.storage.storage_metrics import APPEND_ENTRIES
from bookledger.cli.bench.appends import ENSEMBLE_SIZE, created
from bookledger.cli.bench.cpu import CpuMeter
from bookledger.cli.processes import started
from ledgers import ClientConfig
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.config import PLAIN_TEXT
from metadata.sqlite.sqlite_uri import uri_of
from tests.support.http import HttpBookie, get

from .counting_switch import COUNT, DO_NOT_COUNT

ENTRY_BYTES, LIST_ENTRIES, IN_FLIGHT = 1000, 100, 4000
PAYLOAD = bytes(range(256)) * 4
TURN_ENTRIES = 20_000
PAIRS, WARM_UP_PAIRS = 200, 10
PAIRS_A_GROUP = 10
"""The kernel reports CPU time in steps of 10 ms: too coarse for one turn."""

SCRAPE_SECONDS = 5.0
"""Prometheus scrapes every fifteen by default, and some installations every five."""


class SwitchedBookie(HttpBookie):
    """A bookie that counts and times while it is told to."""

    program = ("-m", "tests.measure.counting_switch")


@dataclass
class Side:
    """With metrics, or without: a writer, and what its turns took."""

    writer: WriteHandle
    bookies: Sequence[SwitchedBookie]
    counts: bool
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    since_scrape: float = 0.0

    def switch(self) -> None:
        """Tells the bookies whether to count."""
        for bookie in self.bookies:
            bookie.child.signal(COUNT if self.counts else DO_NOT_COUNT)

    async def turn(self, append: Append) -> None:
        self.switch()
        cpu = CpuMeter([bookie.child.pid for bookie in self.bookies])
        began = time.perf_counter()
        with cpu:
            async with asyncio.TaskGroup() as group:
                if self.counts and self.since_scrape >= SCRAPE_SECONDS:
                    self.since_scrape = 0.0
                    group.create_task(asyncio.to_thread(self._scrape))
                await append(self.writer)
        self.seconds.append(time.perf_counter() - began)
        self.since_scrape += self.seconds[-1]
        self.cpu_seconds.append(cpu.client_seconds + cpu.bookies_seconds)

    def _scrape(self) -> None:
        for bookie in self.bookies:
            assert get(f"{bookie.url}/metrics")[0] == 200


Append = Callable[[WriteHandle], Awaitable[None]]


async def lists(writer: WriteHandle) -> None:
    """Appends a turn's entries in lists, IN_FLIGHT entries at a time."""
    payloads = [PAYLOAD[:ENTRY_BYTES]] * LIST_ENTRIES

    async def some(count: int) -> None:
        for _ in range(count):
            await writer.append_batch(payloads)

    at_a_time = IN_FLIGHT // LIST_ENTRIES
    await asyncio.gather(*(some(TURN_ENTRIES // LIST_ENTRIES // at_a_time) for _ in range(at_a_time)))


async def futures(writer: WriteHandle) -> None:
    """Appends a turn's entries with a future each."""
    payload = PAYLOAD[:ENTRY_BYTES]
    under_way: list[asyncio.Future[int]] = []
    for number in range(TURN_ENTRIES):
        if number >= IN_FLIGHT:
            await under_way[number - IN_FLIGHT]
        under_way.append(await writer.append_async(payload))
    await asyncio.gather(*under_way)


async def measure(scratch: Path, share: float) -> None:
    """Prints what metrics cost, with standard errors. Takes some two and a half minutes."""
    uri, numbers = uri_of(scratch / "metadata.db"), range(1, ENSEMBLE_SIZE + 1)
    options = ["--http=127.0.0.1:0"]
    bookies = [SwitchedBookie(f"b{n}", scratch / f"b{n}", uri, options=options) for n in numbers]
    configs = (
        ClientConfig(certificates=PLAIN_TEXT, metrics=CollectorRegistry()),
        ClientConfig(certificates=PLAIN_TEXT),
    )
    count = max(PAIRS_A_GROUP * 2, round(PAIRS * share))
    with started(bookies):
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(LedgerClient(uri, config=config)) for config in configs
            ]
            for name, append in (("in lists of 100", lists), ("with a future each", futures)):
                counted = Side(await created(clients[0]), bookies, counts=True)
                uncounted = Side(await created(clients[1]), bookies, counts=False)
                await _check_switch(counted, uncounted, append)
                await _take_turns(counted, uncounted, append, WARM_UP_PAIRS + count)
                print(_told(name, counted, uncounted), flush=True)
                for side, client in zip((counted, uncounted), clients, strict=True):
                    await side.writer.close()
                    await client.delete_ledger(side.writer.ledger_id)


async def _check_switch(counted: Side, uncounted: Side, append: Append) -> None:
    """Bookies count the entries of the one, and of the other hardly any."""
    told = [_entries_counted(counted)]
    for side in (uncounted, counted):
        side.switch()
        await append(side.writer)
        told.append(_entries_counted(counted))
    assert told[1] - told[0] <= TURN_ENTRIES // 10, "a bookie counted what it should not"
    assert told[2] - told[1] >= TURN_ENTRIES // 2, "a bookie did not count what it should"


def _entries_counted(side: Side) -> float:
    """By the first bookie."""
    families = text_string_to_metric_families(get(f"{side.bookies[0].url}/metrics")[1])
    samples = [one for family in families for one in family.samples]
    return sum(one.value for one in samples if one.name == APPEND_ENTRIES.name)


async def _take_turns(counted: Side, uncounted: Side, append: Append, pairs: int) -> None:
    """Takes pairs of turns; the order changes from pair to pair."""
    for number in range(pairs):
        for side in (counted, uncounted) if number % 2 else (uncounted, counted):
            await side.turn(append)


def _told(name: str, counted: Side, uncounted: Side) -> str:
    seconds = [side.seconds[WARM_UP_PAIRS:] for side in (counted, uncounted)]
    cpu = [_groups(side.cpu_seconds[WARM_UP_PAIRS:]) for side in (counted, uncounted)]
    rates = [TURN_ENTRIES / statistics.median(one) for one in seconds]
    return (
        f"bulk appends {name}, {len(seconds[0])} pairs of {TURN_ENTRIES} entries: "
        f"{rates[0]:.0f} entries/s with metrics, {rates[1]:.0f} without; "
        f"metrics cost {_percent(*map(_groups, seconds))} of the time, {_percent(*cpu)} of the CPU time"
    )


def _groups(values: Sequence[float]) -> list[float]:
    return [sum(values[at : at + PAIRS_A_GROUP]) for at in range(0, len(values), PAIRS_A_GROUP)]


def _percent(counted: Sequence[float], uncounted: Sequence[float]) -> str:
    """Returns the mean of the pairs and its standard error."""
    logs = [math.log(one / other) for one, other in zip(counted, uncounted, strict=True)]
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{100 * math.expm1(statistics.mean(logs)):+.1f} ± {100 * error:.1f} %"
