"""What a cluster costs as it gets older, by ledgers alive and deleted, and as it gets larger, by bookies.

Records are written straight into etcd. Prints a line for each figure, and keeps all in build/scale.json, of which
`make measure WHAT=scale-picture` draws docs/scale.svg.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from math import log
from pathlib import Path
from typing import Any

import psutil

from bookledger.cli.processes import BookieProcess, bookie_processes
from metadata import MetadataStore, keys, opened_store
from metadata.etcd import etcd_pb2 as pb
from metadata.etcd.errors import Effect
from metadata.etcd.store import EtcdStore
from metadata.healing import lease_lock
from metadata.records import ledger_codec
from metadata.records.cluster import list_bookies
from metadata.records.ledger_ids import count_beyond, counted_end
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from tests.support.etcd import EtcdServer
from tests.support.etcd_program import find_etcdctl

from .processes import cpu_seconds, private_mib

SIZES = (1000, 10_000, 100_000, 1_000_000)
KEPT = Path("build/scale.json")
TOMBSTONE_SECONDS = 60
TXN_KEYS = 100
IDLE_TRIES_MAX, IDLE_SHARE = 60, 0.05
TXNS_AT_ONCE = 8

Figures = dict[str, float]


async def measure(scratch: Path, share: float) -> None:
    sizes = [max(10, int(size * share)) for size in SIZES]
    kept: dict[str, dict[int, Figures]] = {}
    for name, part in (("alive", _alive), ("deleted", _deleted)):
        directory = scratch / name
        directory.mkdir()
        kept[name] = await part(directory, sizes)
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept, indent=1))


# --- ledgers ------------------------------------------------------------------------------------------


async def _alive(scratch: Path, sizes: Sequence[int]) -> dict[int, Figures]:
    """Closed ledgers without entries, with copies on two bookies; the third holds nothing."""
    found = {}
    with _cluster(scratch) as (etcd, bookies):
        for before, size in zip((0, *sizes), sizes, strict=False):
            async with opened_store(_uri(etcd)) as store:
                refs = tuple(one.bookie for one in await list_bookies(store))[1:]
                for bookie in bookies:
                    bookie.kill()
                records = (_closed(ledger_id, refs) for ledger_id in range(before + 1, size + 1))
                await _put(store, ((one.ledger_id, ledger_codec.encode(one)) for one in records))
                await count_beyond(store, size)
                for bookie in bookies:
                    await asyncio.to_thread(bookie.start)
                began = time.monotonic()
                while not await _is_counted(store, size):  # noqa: ASYNC110 — by another process
                    await asyncio.sleep(1)
                print(f"{size} alive are counted after {time.monotonic() - began:.0f} s", flush=True)
            found[size] = await asyncio.to_thread(_figures, etcd, bookies, size, "alive")
    return found


async def _deleted(scratch: Path, sizes: Sequence[int]) -> dict[int, Figures]:
    """Tombstones, which are retired once all bookies have told that they have passed them."""
    found = {}
    with _cluster(scratch) as (etcd, bookies):
        for size in sizes:
            async with opened_store(_uri(etcd)) as store:
                first = await counted_end(store)
                ids = range(first, first + size)
                await _put(store, ((n, ledger_codec.encode_tombstone(bytes(16), bytes(16))) for n in ids))
                await count_beyond(store, ids[-1])
                there = await asyncio.to_thread(_figures, etcd, bookies, size, "deleted, not retired")
                began = time.monotonic()
                while await _any_left(store, ids):  # noqa: ASYNC110 — by another process
                    await asyncio.sleep(2)
                print(f"{size} retired after {time.monotonic() - began:.0f} s", flush=True)
            found[size] = await asyncio.to_thread(_figures, etcd, bookies, size, "deleted, retired")
            found[size] |= {f"{name}, not retired": value for name, value in there.items()}
        found[sizes[-1]]["etcd bytes"] = await asyncio.to_thread(_compacted_bytes, etcd)
        print(f"etcd, compacted: {found[sizes[-1]]['etcd bytes']:.0f} bytes", flush=True)
    return found


@contextmanager
def _cluster(scratch: Path) -> Iterator[tuple[EtcdServer, list[BookieProcess]]]:
    """etcd, and three bookies that collect every ten seconds."""
    environment = {**os.environ, "BOOKLEDGER_UPKEEP_TOMBSTONE_SECONDS": str(TOMBSTONE_SECONDS)}
    options = ("--collect-every=10",)
    with (
        EtcdServer(scratch, quota_bytes=8 << 30) as etcd,
        bookie_processes(3, scratch, _uri(etcd), environment=environment, options=options) as bookies,
    ):
        yield etcd, bookies


def _uri(etcd: EtcdServer) -> str:
    return f"etcd://{etcd.endpoint}/scale"


def _closed(ledger_id: int, refs: tuple[BookieRef, ...]) -> LedgerRecord:
    ended: dict[str, Any] = {"state": LedgerState.CLOSED, "last_entry": -1, "length_bytes": 0}
    made = int(time.time() * 1000)
    shape, fragments = Shape(len(refs), len(refs), 1), (Fragment(0, refs),)
    return LedgerRecord(
        ledger_id, shape, fragments, created_ms=made, nonce=bytes(16), identity=bytes(16), **ended
    )


async def _put(store: Any, values: Iterable[tuple[int, bytes]]) -> None:
    """Straight into etcd, many in a transaction."""
    etcd: EtcdStore = getattr(store, "_store", store)
    under_way, values = asyncio.Semaphore(TXNS_AT_ONCE), iter(values)

    async def one(request: pb.TxnRequest) -> None:
        async with under_way:
            await etcd._txn(request, Effect.REPEATABLE)

    calls = []
    while some := list(islice(values, TXN_KEYS)):
        request = pb.TxnRequest()
        for ledger_id, value in some:
            key = etcd._to_etcd(f"ledgers/{ledger_id:016x}")
            request.success.add().request_put.CopyFrom(pb.PutRequest(key=key, value=value))
        calls.append(asyncio.create_task(one(request)))
        if len(calls) >= 100 * TXNS_AT_ONCE:
            await asyncio.gather(*calls)
            calls.clear()
    await asyncio.gather(*calls)


async def _is_counted(store: MetadataStore, size: int) -> bool:
    auditor = await lease_lock.read(store, keys.AUDITOR)
    counts = json.loads(auditor.counts) if auditor and auditor.counts else {"ledgers": {}}
    return bool(sum(counts["ledgers"].values()) == size)


async def _any_left(store: MetadataStore, ids: range) -> bool:
    page = await store.list_page("ledgers/", after=f"ledgers/{ids[0] - 1:016x}", limit=1)
    return bool(page.items)


def _figures(etcd: EtcdServer, bookies: Sequence[BookieProcess], size: int, what: str) -> Figures:
    uri = _uri(etcd)
    cpu = {"bookie": psutil.Process(bookies[0].child.pid), "etcd": psutil.Process(etcd._process.pid)}  # type: ignore[union-attr]
    found: Figures = {}
    _until_idle(cpu["bookie"])
    before = {name: cpu_seconds(process) for name, process in cpu.items()}
    found["gc run"] = _timed("bookie", "gc", "run", "bookie-1", f"--metadata={uri}")
    for name, process in cpu.items():
        found[f"gc run, {name}"] = cpu_seconds(process) - before[name]
    found["cluster status"] = _timed("cluster", "status", f"--metadata={uri}")
    found["ledger list"] = _timed("ledger", "list", f"--metadata={uri}", "--json")
    found["bookie MiB"] = max(private_mib(one) for one in bookies)
    print(f"{size} {what}: " + ", ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
    return found


def _until_idle(process: psutil.Process) -> None:
    """A bookie that has started compares what it holds with all records once."""
    for _ in range(IDLE_TRIES_MAX):
        before = cpu_seconds(process)
        time.sleep(5)
        if cpu_seconds(process) - before < IDLE_SHARE * 5:
            return


def _timed(*arguments: str) -> float:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "bookledger", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return time.monotonic() - began


def _compacted_bytes(etcd: EtcdServer) -> float:
    program = find_etcdctl()
    assert program is not None

    def ctl(*arguments: str) -> str:
        command = [program, f"--endpoints={etcd.endpoint}", "--command-timeout=120s", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    status = json.loads(ctl("endpoint", "status", "--write-out=json"))[0]["Status"]
    ctl("compact", str(status["header"]["revision"]), "--physical")
    ctl("defrag")
    return float(json.loads(ctl("endpoint", "status", "--write-out=json"))[0]["Status"]["dbSize"])


# --- the picture --------------------------------------------------------------------------------------

LINES = (
    ("deleted", "gc run", "gc run, deleted", "#c0392b"),
    ("deleted", "cluster status", "cluster status, deleted", "#8e44ad"),
    ("alive", "gc run", "gc run, alive", "#2980b9"),
    ("alive", "cluster status", "cluster status, alive", "#16a085"),
    ("alive", "ledger list", "ledger list, alive", "#7f8c8d"),
)
WIDTH, HEIGHT, LEFT, TOP = 560, 320, 60, 20


async def picture(_: Path, __: float) -> None:
    """docs/scale.svg, of what was measured last."""
    kept = json.loads(KEPT.read_text())
    sizes = sorted(int(size) for size in kept["alive"])
    x = _scale(sizes[0], sizes[-1], LEFT, LEFT + WIDTH)
    y = _scale(0.1, 1000.0, TOP + HEIGHT, TOP)
    parts = [_text(x(size), TOP + HEIGHT + 18, f"{size:,}", "middle") for size in sizes]
    for seconds in (0.1, 1.0, 10.0, 100.0, 1000.0):
        parts.append(_text(LEFT - 6, y(seconds) + 4, f"{seconds:g} s", "end"))
        parts.append(f'<path d="M{LEFT} {y(seconds):.0f}h{WIDTH}" stroke="#ddd"/>')
    for number, (kind, figure, told, colour) in enumerate(LINES):
        there = [n for n in sizes if figure in kept[kind].get(str(n), {})]
        points = " ".join(f"{x(n):.0f},{y(kept[kind][str(n)][figure]):.0f}" for n in there)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(LEFT + WIDTH + 10, TOP + 20 + 18 * number, told, "start", colour))
    body = "\n".join(parts)
    box = f"0 0 {WIDTH + 260} {HEIGHT + 60}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" font-size="12">'
    Path("docs/scale.svg").write_text(f"{head}\n{body}\n</svg>\n")


def _scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """Logarithmic, from values to places."""
    return lambda value: first + (last - first) * log(max(value, low) / low) / log(high / low)


def _text(x: float, y: float, what: str, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{what}</text>'
