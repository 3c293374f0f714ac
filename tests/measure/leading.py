"""Leaders in two processes, on SQLite and on etcd: from the end of one term to the beginning of the next."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median

from ledgers import LedgerClient
from metadata import keys, open_store
from metadata.store import MetadataStore
from tests.support.aio import until_true
from tests.support.etcd import EtcdServer

HAND_OVERS = 100
DEATHS = 20
LEASE_SECONDS = 2.0

LEADER = f"""
import sys, time
from ledgers import LedgerClient
with LedgerClient(sys.argv[1]) as client:
    while True:
        with client.election("measured").lead(lease_seconds={LEASE_SECONDS}) as term:
            print(term.token, flush=True)
            if not sys.stdin.readline():
                break
            left = time.monotonic()
        print(left, flush=True)
"""


async def measure(scratch: Path, share: float) -> None:
    with EtcdServer(scratch) as etcd:
        for uri in (f"sqlite://{scratch}/metadata.db", f"etcd://{etcd.endpoint}/leading"):
            store = await open_store(uri, create=True)
            await _clean(store, uri, int(HAND_OVERS * share))
            await _deaths(store, uri, int(DEATHS * share))
            await store.close()


async def _clean(store: MetadataStore, uri: str, count: int) -> None:
    """Both processes lead in turns; the hand-overs to this one are timed."""
    waits = []
    with _Leader(uri) as other, LedgerClient(uri) as client, ThreadPoolExecutor(1) as thread:
        for _ in range(count):
            await other.line()  # it leads
            begun = thread.submit(_lead_for_a_moment, client, store, asyncio.get_running_loop())
            await _until_two_stand(store)
            other.tell("leave")
            left = float(await other.line())
            waits.append(await asyncio.wrap_future(begun) - left)
        other.kill()
    _print(uri, "a leader that leaves", waits, 1000, "ms")


def _lead_for_a_moment(client: LedgerClient, store: MetadataStore, loop: asyncio.AbstractEventLoop) -> float:
    """When it began to lead; it leaves once the other one is in the queue again."""
    with client.election("measured").lead(lease_seconds=LEASE_SECONDS):
        begun = time.monotonic()
        asyncio.run_coroutine_threadsafe(_until_two_stand(store), loop).result()
    return begun


async def _deaths(store: MetadataStore, uri: str, count: int) -> None:
    """The leader is killed at a random time between two renewals."""
    waits, rng = [], random.Random(7)
    with LedgerClient(uri) as client, ThreadPoolExecutor(1) as thread:
        for _ in range(count):
            with _Leader(uri) as other:
                await other.line()
                begun: Future[float] = thread.submit(_lead_once, client)
                await _until_two_stand(store)
                await asyncio.sleep(rng.uniform(0, LEASE_SECONDS))
                other.kill()
                killed = time.monotonic()
                waits.append(await asyncio.wrap_future(begun) - killed)
    _print(uri, f"a leader that is killed (lease of {LEASE_SECONDS:g} s)", waits, 1, "s")


def _lead_once(client: LedgerClient) -> float:
    with client.election("measured").lead(lease_seconds=LEASE_SECONDS):
        return time.monotonic()


class _Leader(subprocess.Popen[str]):
    """The other process."""

    def __init__(self, uri: str) -> None:
        command = [sys.executable, "-c", LEADER, uri]
        super().__init__(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    async def line(self) -> str:
        assert self.stdout is not None
        return await asyncio.to_thread(self.stdout.readline)

    def tell(self, what: str) -> None:
        assert self.stdin is not None
        self.stdin.write(f"{what}\n")
        self.stdin.flush()


async def _until_two_stand(store: MetadataStore) -> None:
    async def two_stand() -> bool:
        return len((await store.list_page(keys.CANDIDATES)).items) == 2

    await until_true(two_stand)


def _print(uri: str, what: str, waits: list[float], unit: float, name: str) -> None:
    kind = uri.partition(":")[0]
    print(
        f"{kind}: {what} is followed after {unit * median(waits):.3g} {name}, at most {unit * max(waits):.3g} {name}"
        f" ({len(waits)} times)",
        flush=True,
    )
