"""`bookledger bench`: appends through three real bookies, beside plain sockets in the same run.

The baseline is what the machine can do at all: one sender, three receivers, blocks of 1 MiB, each
synced with `fdatasync` before it is answered, BASELINE_WINDOW blocks under way. It is measured
before and after the workloads, and the mean is compared with, since machines are noisy.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from ledgers.aio import LedgerClient, WriteHandle
from metadata.sqlite.uri import uri_of

from .baseline import baseline_mb_per_s
from .options import Finite, json_option
from .output import Say, narrator, print_records
from .processes import bookie_processes
from .scratch import scratch_directory


@dataclass(frozen=True, slots=True)
class Workload:
    """Appends of one size with so many under way."""

    name: str
    entry_bytes: int
    in_flight: int


WORKLOADS = (
    Workload("throughput", 1000, 4000),
    Workload("small entries", 100, 8000),
    Workload("one in flight", 1000, 1),
)

ENSEMBLE_SIZE, ACK_QUORUM = 3, 2


@dataclass(frozen=True, slots=True)
class Result:
    workload: str
    entry_bytes: int
    in_flight: int
    adds_per_s: float
    mb_per_s: float
    p50_ms: float
    p99_ms: float
    baseline_mb_per_s: float = 0.0
    ratio: float = 0.0


@click.command()
@click.option("--seconds", default=5.0, type=Finite(0.1, 3600), show_default=True, help="For each workload.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory on the disk to measure [the system's temporary one].",
)
@json_option
def bench(seconds: float, data: Path | None, as_json: bool) -> None:
    """Measure appends: three bookies, ensemble and write quorum 3, ack quorum 2."""
    say = narrator(quiet=as_json)
    with scratch_directory("bench", data, say) as directory:
        results = run(directory, seconds, say)
    print_records([asdict(result) for result in results], as_json=as_json, none="nothing was measured")


def run(directory: Path, seconds: float, say: Say) -> list[Result]:
    say(f"baseline: plain sockets, three receivers, 1 MiB blocks, fdatasync each ({seconds:g} s)")
    baselines = [baseline_mb_per_s(directory, seconds)]
    uri = uri_of(directory / "metadata.db")
    measured: list[Result] = []
    with bookie_processes(ENSEMBLE_SIZE, directory, uri):
        for workload in WORKLOADS:
            say(
                f"{workload.name}: {workload.entry_bytes} bytes, {workload.in_flight} in flight ({seconds:g} s)"
            )
            measured.append(asyncio.run(_measure(uri, workload, seconds)))
    say("baseline again")
    baselines.append(baseline_mb_per_s(directory, seconds))
    baseline = sum(baselines) / len(baselines)
    return [_beside(result, baseline) for result in measured]


def _beside(result: Result, baseline: float) -> Result:
    fields = asdict(result) | {
        "baseline_mb_per_s": round(baseline, 1),
        "ratio": round(result.mb_per_s / baseline, 3),
    }
    return Result(**fields)


async def _measure(uri: str, workload: Workload, seconds: float) -> Result:
    async with LedgerClient(uri) as client:
        writer = await client.create_ledger(ensemble_size=ENSEMBLE_SIZE, ack_quorum=ACK_QUORUM)
        async with writer:
            await _append_for(writer, workload, min(1.0, seconds / 4))  # warm up
            latencies, took = await _append_for(writer, workload, seconds)
        await client.delete_ledger(writer.ledger_id)
    latencies.sort()
    count = len(latencies)
    return Result(
        workload=workload.name,
        entry_bytes=workload.entry_bytes,
        in_flight=workload.in_flight,
        adds_per_s=round(count / took, 1),
        mb_per_s=round(count * workload.entry_bytes / took / 1e6, 3),
        p50_ms=round(1000 * latencies[count // 2], 3),
        p99_ms=round(1000 * latencies[count * 99 // 100], 3),
    )


async def _append_for(writer: WriteHandle, workload: Workload, seconds: float) -> tuple[list[float], float]:
    """Keeps `in_flight` appends under way; latency is from the append to when its confirmation is seen."""
    payload = bytes(range(256)) * (workload.entry_bytes // 256 + 1)
    payload = payload[: workload.entry_bytes]
    under_way: deque[tuple[float, asyncio.Future[int]]] = deque()
    latencies: list[float] = []
    clock = time.perf_counter
    began = clock()
    end = began + seconds
    while (now := clock()) < end or under_way:
        while now < end and len(under_way) < workload.in_flight:
            under_way.append((now, await writer.append_async(payload)))
        await under_way[0][1]
        now = clock()
        while under_way and under_way[0][1].done():
            appended_at, future = under_way.popleft()
            future.result()
            latencies.append(now - appended_at)
    return latencies, clock() - began
