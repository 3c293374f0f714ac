"""Measures what metrics cost bulk appends: the same appends with all metrics and with none, in turns, in one run.

With: bookies count and time, have an HTTP port of which /metrics is scraped after every five seconds of work, and the
client counts into a registry. Without: bookies and client count nothing, and there is no port. Both keep their writers
open and take turns of a fraction of a second, so that other load on the machine slows both.
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

from bookledger.cli.bench.appends import ENSEMBLE_SIZE, created
from bookledger.cli.bench.cpu import CpuMeter
from bookledger.cli.processes import BookieProcess, started
from ledgers import ClientConfig
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.config import PLAIN_TEXT
from metadata.sqlite.uri import uri_of
from tests.support.http import HttpBookie, get

ENTRY_BYTES, LIST_ENTRIES, IN_FLIGHT = 1000, 100, 4000
PAYLOAD = bytes(range(256)) * 4
TURN_ENTRIES = 20_000
PAIRS, WARM_UP_PAIRS = 200, 10
PAIRS_A_GROUP = 10
"""The kernel reports CPU time in steps of 10 ms: too coarse for one turn."""

SCRAPE_SECONDS = 5.0
"""Prometheus scrapes every fifteen by default, and some installations every five."""


class UncountedBookie(BookieProcess):
    """A bookie that counts and times nothing."""

    program = ("-m", "tests.measure.uncounted")


@dataclass
class Side:
    """One of the two clusters: its writer, its bookies, the addresses to scrape, and what its turns took."""

    writer: WriteHandle
    bookies: Sequence[BookieProcess]
    urls: Sequence[str] = ()
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    since_scrape: float = 0.0

    async def turn(self, append: Append) -> None:
        cpu = CpuMeter([bookie.child.pid for bookie in self.bookies])
        began = time.perf_counter()
        with cpu:
            async with asyncio.TaskGroup() as group:
                if self.since_scrape >= SCRAPE_SECONDS:
                    self.since_scrape = 0.0
                    group.create_task(asyncio.to_thread(self._scrape))
                await append(self.writer)
        self.seconds.append(time.perf_counter() - began)
        self.since_scrape += self.seconds[-1]
        self.cpu_seconds.append(cpu.client_seconds + cpu.bookies_seconds)

    def _scrape(self) -> None:
        for url in self.urls:
            assert get(f"{url}/metrics")[0] == 200


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
    places = uri_of(scratch / "with.db"), uri_of(scratch / "without.db")
    numbers = range(1, ENSEMBLE_SIZE + 1)
    http = ["--http=127.0.0.1:0"]
    shown = [HttpBookie(f"b{n}", scratch / f"with-{n}", places[0], options=http) for n in numbers]
    silent = [UncountedBookie(f"b{n}", scratch / f"without-{n}", places[1]) for n in numbers]
    configs = (
        ClientConfig(certificates=PLAIN_TEXT, metrics=CollectorRegistry()),
        ClientConfig(certificates=PLAIN_TEXT),
    )
    count = max(PAIRS_A_GROUP * 2, round(PAIRS * share))
    with started(shown), started(silent):
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(LedgerClient(uri, config=config))
                for uri, config in zip(places, configs, strict=True)
            ]
            for name, append in (("in lists of 100", lists), ("with a future each", futures)):
                counted = Side(await created(clients[0]), shown, [bookie.url for bookie in shown])
                uncounted = Side(await created(clients[1]), silent)
                await _take_turns(counted, uncounted, append, WARM_UP_PAIRS + count)
                print(_told(name, counted, uncounted), flush=True)
                for side, client in zip((counted, uncounted), clients, strict=True):
                    await side.writer.close()
                    await client.delete_ledger(side.writer.ledger_id)


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
