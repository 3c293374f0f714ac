"""`bookledger bench`: appends to three real bookies, and reading, beside plain sockets in the same run.

The baseline is what the machine can do at all: one sender, three receivers, blocks of 1 MiB, each
synced with `fdatasync` before it is answered, BASELINE_WINDOW blocks under way. It is measured
before and after the workloads, and the mean is compared with, since machines are noisy.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import click

from ledgers.aio import LedgerClient

from ..options import json_option, measuring_options
from ..output import Say, narrator, print_records
from ..processes import in_plain_text
from ..scratch import scratch_directory
from .appends import append_async, append_blocking
from .baseline import baseline_mb_per_s
from .clusters import BenchCluster, plain_cluster, tls_cluster
from .reads import read
from .workloads import WORKLOADS, How, Measured, Result, Workload


@click.command()
@measuring_options
@click.option(
    "--tls", "with_tls", is_flag=True, help="Each workload over TLS as well, right after plain text."
)
@json_option
def bench(seconds: float, data: Path | None, with_tls: bool, as_json: bool) -> None:
    """Measure appends and reading: three bookies, ensemble and write quorum 3, ack quorum 2."""
    in_plain_text()
    say = narrator(quiet=as_json)
    with scratch_directory("bench", data, say) as directory:
        results = run(directory, seconds, say, with_tls=with_tls)
    print_records([asdict(result) for result in results], as_json=as_json, none="nothing was measured")


def run(directory: Path, seconds: float, say: Say, *, with_tls: bool = False) -> list[Result]:
    say(f"baseline: plain sockets, three receivers, 1 MiB blocks, fdatasync each ({seconds:g} s)")
    baselines = [baseline_mb_per_s(directory, seconds)]
    measured: list[Result] = []
    with ExitStack() as stack:
        clusters = [stack.enter_context(plain_cluster(directory / "plain"))]
        if with_tls:
            clusters.append(stack.enter_context(tls_cluster(directory / "tls")))
        for workload in WORKLOADS:
            for cluster in clusters:
                named = replace(workload, name=f"{workload.name}{cluster.suffix}")
                say(f"{named.name}: {named.entry_bytes} bytes, {named.in_flight} in flight ({seconds:g} s)")
                measured.append(_measure(cluster, named, seconds))
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


def _measure(cluster: BenchCluster, workload: Workload, seconds: float) -> Result:
    match workload.how:
        case How.READ | How.PAGES:
            measured = read(cluster.uri, cluster.config, workload, seconds)
        case How.BLOCKING:
            measured = append_blocking(cluster.uri, cluster.config, workload, seconds)
        case _:
            measured = asyncio.run(_append(cluster, workload, seconds))
    return measured.result(workload)


async def _append(cluster: BenchCluster, workload: Workload, seconds: float) -> Measured:
    async with LedgerClient(cluster.uri, config=cluster.config) as client:
        return await append_async(client, workload, seconds)
