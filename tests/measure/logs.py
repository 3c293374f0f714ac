"""Logs on a real etcd and three bookies: appends beside a bare ledger's, rolls, take-overs after a kill, look-ups."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from statistics import median, quantiles

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient, LogWriter, WriteHandle
from ledgers.logs.log_chain import LogChain
from ledgers.logs.segment_pages import segment_at
from metadata import opened_store
from metadata.records.logs.log_record import PAGE_SEGMENTS, LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.segment import Segment
from tests.support.etcd import EtcdServer

PAYLOAD = bytes(1024)
SECONDS = 3.0
ROUNDS = 6
TAKE_OVERS = 60
SEGMENTS = 100_000
LOGS = 1000
RECORDS_EACH = 20

KILLED = """
import sys
from ledgers import LedgerClient
with LedgerClient(sys.argv[1]) as client, client.log("taken").writer() as writer:
    while True:
        futures = [writer.append_async(b"x" * 100) for _ in range(100)]
        futures[-1].result()
        print(futures[-1].result(), flush=True)
"""


async def measure(scratch: Path, share: float) -> None:
    with EtcdServer(scratch) as etcd:
        uri = f"etcd://{etcd.endpoint}/bench"
        await asyncio.to_thread(_on_bookies, scratch / "bookies", uri, share)
        await _seeks(f"etcd://{etcd.endpoint}/seeks", share)


def _on_bookies(directory: Path, uri: str, share: float) -> None:
    directory.mkdir()
    with bookie_processes(3, directory, uri), LedgerClient(uri) as client:
        for name, append in APPENDS.items():
            _appends(client, name, append, share)
        _rolls(client, share)
        _take_overs(client, uri, share)
        _many(client)


Append = Callable[["WriteHandle | LogWriter", float], int]


def _bulk(writer: WriteHandle | LogWriter, until: float) -> int:
    count = 0
    while time.perf_counter() < until:
        for _ in range(100):
            writer.append_async(PAYLOAD)
        count += 100
    writer.flush()
    return count


def _in_flight(writer: WriteHandle | LogWriter, until: float) -> int:
    flying: deque[Future[int]] = deque()
    count = 0
    while time.perf_counter() < until:
        if len(flying) == 100:
            flying.popleft().result()
        flying.append(writer.append_async(PAYLOAD))
        count += 1
    writer.flush()
    return count


def _one(writer: WriteHandle | LogWriter, until: float) -> int:
    count = 0
    while time.perf_counter() < until:
        writer.append(PAYLOAD)
        count += 1
    return count


APPENDS: dict[str, Append] = {"bulk": _bulk, "100 in flight": _in_flight, "one": _one}


def _appends(client: LedgerClient, name: str, append: Append, share: float) -> None:
    """In turn, each as often first as second: both have the same machine, and what the one before left to be written.

    `cpu_us`: processor time of this process for each append.
    """
    log = client.log("appended", create=True)
    writers: dict[str, Callable[[], WriteHandle | LogWriter]] = {
        "ledger": client.create_ledger,
        "log": log.writer,
    }
    rates, costs = ({kind: list[float]() for kind in writers} for _ in range(2))
    for n in range(ROUNDS):
        for kind in sorted(writers, reverse=bool(n % 2)):
            writer = writers[kind]()
            began, began_cpu = time.perf_counter(), time.process_time()
            count = append(writer, began + SECONDS * share)
            rates[kind].append(count / (time.perf_counter() - began))
            costs[kind].append((time.process_time() - began_cpu) * 1e6 / count)
            writer.close()
    told = {f"{kind}_per_s": round(median(rates[kind])) for kind in rates}
    cost = {f"{kind}_cpu_us": round(median(costs[kind]), 2) for kind in costs}
    _tell(f"appends, {name}", ratio=round(median(rates["log"]) / median(rates["ledger"]), 3), **told, **cost)


def _rolls(client: LedgerClient, share: float) -> None:
    log = client.create_log("rolled", roll_bytes=2 * 1024 * 1024)
    done: list[float] = []
    with log.writer() as writer:
        until = time.perf_counter() + 10 * share
        flying: deque[Future[int]] = deque()
        while time.perf_counter() < until:
            if len(flying) == 100:
                flying.popleft().result()
                done.append(time.perf_counter())
            flying.append(writer.append_async(PAYLOAD))
    gaps = sorted((b - a) * 1000 for a, b in zip(done, done[1:], strict=False))
    rolls = len(list(log.segments())) - 1
    _tell("roll under load", rolls=rolls, longest_gap_ms=round(gaps[-1], 1), records=len(done))


def _take_overs(client: LedgerClient, uri: str, share: float) -> None:
    log = client.log("taken", create=True)
    took = []
    for _ in range(max(5, round(TAKE_OVERS * share))):
        child = subprocess.Popen([sys.executable, "-c", KILLED, uri], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        child.kill()
        child.wait()
        said = [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
        began = time.perf_counter()
        with log.writer() as writer:
            position = writer.append(b"on")
            took.append((time.perf_counter() - began) * 1000)
        assert not said or position > int(said[-1]), "all that was confirmed is there"
    _tell(
        "take-over after kill -9", p50_ms=round(median(took), 1), p99_ms=round(quantiles(took, n=100)[-1], 1)
    )


def _many(client: LedgerClient) -> None:
    """Logs that one client writes at once; no fewer for a quick look."""
    began = time.perf_counter()
    writers = [client.create_log(f"many-{n}").writer() for n in range(LOGS)]
    opened = time.perf_counter()
    futures = [writer.append_async(PAYLOAD) for _ in range(RECORDS_EACH) for writer in writers]
    for future in futures:
        future.result()
    appended = time.perf_counter()
    for writer in writers:
        writer.close()
    _tell(
        "logs of one client",
        logs=LOGS,
        opened_per_s=round(LOGS / (opened - began)),
        appends_per_s=round(len(futures) / (appended - opened)),
        closed_per_s=round(LOGS / (time.perf_counter() - appended)),
    )


async def _seeks(uri: str, share: float) -> None:
    async with opened_store(uri, create=True) as store:
        logs, record = LogStore(store), LogRecord(bytes(16), "many")
        made = await logs.create(record)
        count = round(SEGMENTS * share) // PAGE_SEGMENTS * PAGE_SEGMENTS
        for start in range(0, count, PAGE_SEGMENTS):
            page = [
                Segment(n, 10 * n, 1, 10 * n, 10 * n + 10, 10 * n + 9, 100)
                for n in range(start, start + PAGE_SEGMENTS)
            ]
            await logs.put_page(record.identity, tuple(page))
        chain = LogChain(logs, made)
        await chain.change(lambda found: found.without_page(tuple(page)))
        took = []
        for n in range(0, count, max(1, count // 200)):
            began = time.perf_counter()
            assert (await segment_at(chain, 10 * n)) is not None
            took.append((time.perf_counter() - began) * 1000)
    _tell("seek", segments=count, p50_ms=round(median(took), 2), longest_ms=round(max(took), 2))


def _tell(what: str, **figures: float) -> None:
    print(json.dumps({"what": what} | figures), flush=True)
