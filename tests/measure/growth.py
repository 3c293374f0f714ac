"""What grows with use: ledgers open in a client, ledgers on a bookie, clients of a bookie; and a long steady state."""

from __future__ import annotations

import asyncio
import random
import resource
import sqlite3
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from bookie.wire import LacStatement, of_payloads
from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import ClientConfig
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.bookie_client import LaneTerms
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.bookies.queued_lane import QueuedLane
from ledgers.integrity.digest import Crc32cDigester
from ledgers.integrity.ledger_keys import LedgerKey
from metadata import keys
from metadata.records import ledger_codec
from metadata.records.cluster import list_bookies
from metadata.records.ledger_ids import count_beyond
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.store_factory import open_store

from .processes import log_bytes, private_mib

OPEN_LEDGERS = 100_000
LEDGERS_ON_A_BOOKIE = 1_000_000
CLIENTS = 1000
STEADY_SECONDS = 900.0

AT_ONCE = 64
ENTRY_BYTES = 100
PACE_SECONDS = 30.0


async def measure(scratch: Path, share: float) -> None:
    for number, part in enumerate((ledgers_on_a_bookie, clients_of_a_bookie, open_ledgers, steady)):
        directory = scratch / str(number)
        directory.mkdir()
        await part(directory, share)


# --- ledgers on a bookie ------------------------------------------------------------------------------


async def ledgers_on_a_bookie(scratch: Path, share: float) -> None:
    """One entry each: what the bookie keeps of them. Their records are put into the metadata's file together."""
    uri, count = f"sqlite://{scratch}/metadata.db", int(LEDGERS_ON_A_BOOKIE * share)
    with bookie_processes(1, scratch, uri) as (bookie,):
        print(f"a bookie with nothing: {private_mib(bookie)} MiB", flush=True)
        began = time.monotonic()
        await _fill(scratch / "metadata.db", uri, count)
        took = time.monotonic() - began
        index = sum(file.stat().st_size for file in (bookie.directory / "index").iterdir()) >> 20
        print(
            f"{count} ledgers on a bookie: {count / took:.0f} a second, {private_mib(bookie)} MiB, "
            f"index {index} MiB, log {log_bytes(bookie) >> 20} MiB",
            flush=True,
        )
        await _restart(bookie, count)
        async with LedgerClient(uri) as client:
            writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
            _say(f"appends beside {count} ledgers", await _one_after_the_other(writer, 2000))
            await writer.close()


async def _restart(bookie: BookieProcess, count: int) -> None:
    bookie.kill()
    began = time.monotonic()
    await asyncio.to_thread(bookie.start)
    print(f"start after kill -9 with {count} ledgers: {time.monotonic() - began:.2f} s", flush=True)


class _Counting:
    """A lane's listener that counts what is on disk."""

    failure = ""

    def __init__(self, room: asyncio.Semaphore) -> None:
        self._room = room

    def acked(self, through: int) -> None:
        self._room.release()

    def written(self, through: int) -> None: ...
    def behind(self, why: str) -> None: ...
    def caught_up(self) -> None: ...

    def failed(self, why: str) -> None:
        self.failure = self.failure or why
        self._room.release()

    def refused(self, status: object, why: str) -> None:
        self.failed(str(status))


async def _fill(file: Path, uri: str, count: int) -> None:
    store = await open_store(uri)
    bookies = ConnectedBookies(store, ClientConfig())
    (found,) = await list_bookies(store)
    ledger_ids = range(1_000_000, 1_000_000 + count)
    await asyncio.to_thread(_note, file, found.bookie, ledger_ids)
    await count_beyond(store, ledger_ids[-1])
    under_way = asyncio.Semaphore(AT_ONCE * 16)
    listener = _Counting(under_way)
    lanes: deque[QueuedLane] = deque()
    for ledger_id in ledger_ids:
        await under_way.acquire()
        assert not listener.failure, listener.failure
        lanes.append(_append_one(bookies, found.bookie, ledger_id, listener))
        if len(lanes) > AT_ONCE * 64:
            lanes.popleft().close()
    for _ in range(AT_ONCE * 16):
        await under_way.acquire()
    await bookies.close()
    await store.close()


def _note(file: Path, ref: BookieRef, ledger_ids: Iterable[int]) -> None:
    """A thousand to a transaction: the bookie keeps its lease meanwhile."""
    records = (
        LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, (ref,)),), LedgerState.OPEN, nonce=bytes(16))
        for ledger_id in ledger_ids
    )
    rows = ((keys.ledger(record.ledger_id), ledger_codec.encode(record)) for record in records)
    with closing(sqlite3.connect(file, timeout=30)) as metadata:
        while some := list(islice(rows, 1000)):
            with metadata:
                metadata.executemany("INSERT INTO keys VALUES (?, ?, 1, NULL)", some)


def _append_one(bookies: ConnectedBookies, ref: BookieRef, ledger_id: int, listener: _Counting) -> QueuedLane:
    digester = Crc32cDigester(ledger_id)
    payload = bytes(ENTRY_BYTES)

    def nothing_confirmed() -> LacStatement | None:
        return None

    terms = LaneTerms(ledger_id, LedgerKey(ledger_id, b""))
    lane = bookies.open_lane(ref, terms, listener, nothing_confirmed)
    lane.send(of_payloads(0, [payload], digester.sign(0, [payload])))
    return lane


# --- clients of a bookie ------------------------------------------------------------------------------


async def clients_of_a_bookie(scratch: Path, share: float) -> None:
    """Each with a ledger of its own on the same three bookies, and an append a second."""
    uri, count = f"sqlite://{scratch}/metadata.db", int(CLIENTS * share)
    with bookie_processes(3, scratch, uri) as bookies:
        before = private_mib(bookies[0])
        clients = [LedgerClient(uri) for _ in range(count)]
        writers: list[WriteHandle] = []
        for client in clients:
            await client.connect()
            writers.append(await client.create_ledger(ensemble_size=3, ack_quorum=2))
        latencies: list[float] = []
        await asyncio.gather(*(_paced(writer, latencies) for writer in writers))
        print(
            f"{count} clients: {(private_mib(bookies[0]) - before) * 1024 // count} KiB a client in a bookie",
            flush=True,
        )
        _say(f"an append a second from each of {count} clients", latencies)
        for client in clients:
            await client.close()


async def _paced(writer: WriteHandle, latencies: list[float]) -> None:
    await asyncio.sleep(random.random())
    end = time.monotonic() + PACE_SECONDS
    while (began := time.monotonic()) < end:
        await writer.append(bytes(ENTRY_BYTES))
        latencies.append(time.monotonic() - began)
        await asyncio.sleep(1.0)


# --- ledgers open in a client -------------------------------------------------------------------------


async def open_ledgers(scratch: Path, share: float) -> None:
    uri, count = f"sqlite://{scratch}/metadata.db", int(OPEN_LEDGERS * share)
    with bookie_processes(3, scratch, uri):
        async with LedgerClient(uri) as client:
            before = _own_mib()
            began = time.monotonic()
            writers = await _created(client, count)
            print(
                f"{count} ledgers open in a client: {count / (time.monotonic() - began):.0f} a second, "
                f"{(_own_mib() - before) * 1024 / count:.1f} KiB each",
                flush=True,
            )
            began = time.monotonic()
            for future in [await writer.append_async(bytes(ENTRY_BYTES)) for writer in writers]:
                await future
            print(f"an append to each: {count / (time.monotonic() - began):.0f} a second", flush=True)
            _say(f"appends to one of {count}", await _one_after_the_other(writers[0], 1000))
            for writer in writers:
                await writer.abandon()


async def _created(client: LedgerClient, count: int) -> list[WriteHandle]:
    some = asyncio.Semaphore(AT_ONCE)

    async def one() -> WriteHandle:
        async with some:
            return await client.create_ledger(ensemble_size=3, ack_quorum=2)

    return await asyncio.gather(*(one() for _ in range(count)))


def _own_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- a steady state -----------------------------------------------------------------------------------


async def steady(scratch: Path, share: float) -> None:
    """Ledgers of 10 MB are written and deleted while bookies collect and compact; every minute a line."""
    uri, seconds = f"sqlite://{scratch}/metadata.db", STEADY_SECONDS * share
    options = ("--collect-every=30", "--segment-size=64")
    with bookie_processes(3, scratch, uri, options=options) as bookies:
        async with LedgerClient(uri) as client:
            probe = await client.create_ledger(ensemble_size=3, ack_quorum=2)
            end = time.monotonic() + seconds
            churning = asyncio.create_task(_churn(client, end))
            while time.monotonic() < end:
                latencies = await _for_seconds(probe, min(60.0, end - time.monotonic()))
                disk, memory = log_bytes(bookies[0]) >> 20, private_mib(bookies[0])
                _say(f"steady state, log {disk} MiB, {memory} MiB", latencies)
            written = await churning
            print(f"steady state: {written / 1e6:.0f} MB written in {seconds:.0f} s", flush=True)
            await probe.close()


async def _churn(client: LedgerClient, end: float) -> int:
    """Keeps twenty ledgers: the oldest goes for each new one, some of its neighbours stay behind for longer."""
    kept: deque[int] = deque()
    payloads, written, rng = [bytes(1000)] * 100, 0, random.Random(17)
    while time.monotonic() < end:
        async with await client.create_ledger(ensemble_size=3, ack_quorum=2) as writer:
            for _ in range(100):
                await writer.append_batch(payloads)
                await asyncio.sleep(0.002)
            written += 100 * 100 * 1000
        kept.append(writer.ledger_id)
        if len(kept) > 20:
            kept.rotate(-rng.randrange(5))
            await client.delete_ledger(kept.popleft())
    return written


async def _for_seconds(writer: WriteHandle, seconds: float) -> list[float]:
    latencies: list[float] = []
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        await writer.append(bytes(ENTRY_BYTES))
        latencies.append(time.monotonic() - began)
        await asyncio.sleep(0.01)
    return latencies


# ------------------------------------------------------------------------------------------------------


async def _one_after_the_other(writer: WriteHandle, count: int) -> list[float]:
    latencies: list[float] = []
    for _ in range(count):
        began = time.monotonic()
        await writer.append(bytes(ENTRY_BYTES))
        latencies.append(time.monotonic() - began)
    return latencies


def _say(what: str, latencies: Sequence[float]) -> None:
    ordered = sorted(latencies)
    p50, p99 = (1000 * ordered[len(ordered) * percent // 100] for percent in (50, 99))
    print(f"{what}: p50 {p50:.2f} ms, p99 {p99:.2f} ms", flush=True)
