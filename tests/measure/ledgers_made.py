"""Ledgers made, given one entry and closed on a real etcd, beside what one synced write to that etcd takes."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from pathlib import Path

from bookledger.cli.bench.command import measure as measure_workload
from bookledger.cli.bench.command import plain_cluster
from bookledger.cli.bench.workloads import How, Workload, WorkloadResult
from metadata import opened_store
from tests.support.etcd import EtcdServer

WORKLOAD = Workload("ledgers made and closed, etcd", 1000, 1, How.LEDGERS)
SECONDS = 5.0
RECORD_BYTES = 300
"""About what the record of a ledger takes."""


async def measure(scratch: Path, share: float) -> None:
    """One JSON object, as `bookledger bench` prints them. `times_cas`: how many writes to etcd a ledger takes."""
    with EtcdServer(scratch) as etcd:
        uri = f"etcd://{etcd.endpoint}/bench"
        before = await _cas_ms(uri, SECONDS * share / 4)
        result = await asyncio.to_thread(_made, scratch / "bookies", uri, SECONDS * share)
        after = await _cas_ms(uri, SECONDS * share / 4)
    cas_ms = (before + after) / 2
    told = asdict(result) | {"cas_p50_ms": round(cas_ms, 3), "times_cas": round(result.p50_ms / cas_ms, 2)}
    del told["baseline_mb_per_s"], told["ratio"], told["of_lists"]
    print(json.dumps(told), flush=True)


def _made(directory: Path, uri: str, seconds: float) -> WorkloadResult:
    with plain_cluster(directory, uri) as cluster:
        return measure_workload(cluster, WORKLOAD, seconds)


async def _cas_ms(uri: str, seconds: float) -> float:
    """The median time of a compare-and-swap, one after the other."""
    async with opened_store(uri) as store:
        version = await store.create("measured", bytes(RECORD_BYTES))
        took: list[float] = []
        began = time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            version = await store.replace("measured", bytes(RECORD_BYTES), version)
            took.append(time.perf_counter() - now)
        await store.delete("measured", version)
    return 1000 * sorted(took)[len(took) // 2]
