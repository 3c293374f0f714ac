"""`bookledger bench`: appends to three real bookies, and reading, beside plain sockets in the same run.

The baseline is what the machine can do at all: one sender, three receivers, blocks of 1 MiB, each
synced with `fdatasync` before it is answered, BASELINE_WINDOW blocks under way. It is measured
before and after the workloads, and the mean is compared with, since machines are noisy.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from ledgers.aio import LedgerClient
from metadata.sqlite.uri import uri_of

from ..options import json_option, measuring_options
from ..output import Say, narrator, print_records
from ..processes import bookie_processes
from ..scratch import scratch_directory
from .appends import ENSEMBLE_SIZE, append_async, append_blocking
from .baseline import baseline_mb_per_s
from .reads import read
from .workloads import WORKLOADS, How, Measured, Result, Workload


@click.command()
@measuring_options
@json_option
def bench(seconds: float, data: Path | None, as_json: bool) -> None:
    """Measure appends and reading: three bookies, ensemble and write quorum 3, ack quorum 2."""
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
            measured.append(_measure(uri, workload, seconds))
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


def _measure(uri: str, workload: Workload, seconds: float) -> Result:
    match workload.how:
        case How.READ | How.PAGES:
            measured = read(uri, workload, seconds)
        case How.BLOCKING:
            measured = append_blocking(uri, workload, seconds)
        case _:
            measured = asyncio.run(_append(uri, workload, seconds))
    return measured.result(workload)


async def _append(uri: str, workload: Workload, seconds: float) -> Measured:
    async with LedgerClient(uri) as client:
        return await append_async(client, workload, seconds)
