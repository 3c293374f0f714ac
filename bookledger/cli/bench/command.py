"""`bookledger bench`: benchmarks appends to and reads from three real bookies, against plain sockets in the same run.

The baseline is the machine's limit: one sender, three receivers, blocks of 1 MiB, each synced with `fdatasync` before
it is answered, and BASELINE_WINDOW blocks in flight. It is measured before and after the workloads, and results are
compared with the mean of the two, because machines are noisy.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import click

from bookie.program_version import interpreter
from bookie.wire.trust.identity import Identity
from bookie.wire.trust.roles import Role
from ledgers import ClientConfig
from ledgers.aio import LedgerClient
from ledgers.config import PLAIN_TEXT
from metadata.sqlite.sqlite_uri import uri_of

from ..certs.authority import Authority, make_authority
from ..messages.help import command
from ..messages.interruption import advise_when_stopped, bookies_are_gone
from ..messages.sizes import format_bytes
from ..options import FilePath, json_option, measuring_options
from ..output import ProgressBar, Say, check_is_new, narrator, print_records, whole_file
from ..processes import BookieProcess, bookie_processes, in_plain_text, started
from ..temporary_directories import scratch_directory
from .appends import ENSEMBLE_SIZE, append_async, append_blocking
from .baseline import Baseline
from .baseline import measured as measured_baseline
from .cpu import CpuMeter
from .page import BenchRun, page_of
from .picture import picture_of
from .reads import read
from .workloads import BLOCKING, LISTS, SWEEP, WORKLOADS, How, Measured, Workload, WorkloadResult

CERTIFICATE_DAYS = 7


@dataclass(frozen=True, slots=True)
class BenchCluster:
    """Three bookies. `config` is the client's configuration; `suffix` is appended to workload names."""

    uri: str
    config: ClientConfig
    suffix: str
    bookies: Sequence[BookieProcess]

    def cpu_meter(self) -> CpuMeter:
        return CpuMeter([bookie.child.pid for bookie in self.bookies])


@contextmanager
def plain_cluster(directory: Path, metadata_uri: str = "") -> Iterator[BenchCluster]:
    """Starts a cluster with its metadata at `metadata_uri` or, if that is empty, in a new file in the directory."""
    directory.mkdir()
    uri = metadata_uri or uri_of(directory / "metadata.db")
    with bookie_processes(ENSEMBLE_SIZE, directory, uri) as bookies:
        yield BenchCluster(uri, ClientConfig(certificates=PLAIN_TEXT), "", bookies)


@contextmanager
def tls_cluster(directory: Path) -> Iterator[BenchCluster]:
    """Starts a cluster with certificates from a new authority."""
    directory.mkdir()
    uri = uri_of(directory / "metadata.db")
    make_authority(directory / "authority", "bookledger bench", CERTIFICATE_DAYS)
    authority = Authority(directory / "authority")
    authority.issue(directory / "client", Identity(Role.CLIENT, "bench"), [], CERTIFICATE_DAYS)
    bookies = bookies_with_certificates(directory, uri, authority)
    with started(bookies):
        yield BenchCluster(uri, ClientConfig(certificates=str(directory / "client")), ", TLS", bookies)


def bookies_with_certificates(directory: Path, uri: str, authority: Authority) -> list[BookieProcess]:
    """Creates the bookies of one ensemble, without starting them."""
    return [_with_certificate(directory, uri, n, authority) for n in range(1, ENSEMBLE_SIZE + 1)]


def _with_certificate(directory: Path, uri: str, number: int, authority: Authority) -> BookieProcess:
    name = f"bookie-{number}"
    certificates = directory / f"{name}-certs"
    authority.issue(certificates, Identity(Role.BOOKIE, name), ["127.0.0.1"], CERTIFICATE_DAYS)
    return BookieProcess(name, directory / name, uri, options=[f"--certs={certificates}"])


@command()
@measuring_options
@click.option(
    "--tls", "with_tls", is_flag=True, help="Also run each workload over TLS, right after its plain-text run."
)
@click.option(
    "--picture",
    type=FilePath(dir_okay=False),
    help="Write the results to this new SVG file.",
)
@click.option(
    "--html",
    type=FilePath(dir_okay=False),
    help="Write charts to this new HTML file; for them, also measure with increasing numbers of entries in flight.",
)
@json_option
def bench(
    seconds: float,
    data: Path | None,
    with_tls: bool,
    picture: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Benchmark appends and reads: three bookies, ensemble and write quorum 3, ack quorum 2.

    Examples:
        bookledger bench --seconds 2 --data /srv
        bookledger bench --tls --picture bench.svg
        bookledger bench --html bench.html
    """
    for file in filter(None, (picture, html)):
        check_is_new(file)
    in_plain_text()
    say = narrator(quiet=as_json)
    with (
        advise_when_stopped(bookies_are_gone),
        scratch_directory("bench", data, say) as directory,
        ProgressBar("measuring", None, of="", prints=not as_json),
    ):
        run = measured(directory, seconds, say, with_tls=with_tls, with_sweep=html is not None)
    if picture is not None:
        with whole_file(picture) as file_of_picture:
            file_of_picture.write(picture_of(run.results, _about(seconds)).encode())
    if html is not None:
        with whole_file(html) as file_of_page:
            file_of_page.write(page_of(run, _about(seconds)).encode())
    print_records([asdict(result) for result in run.results], as_json=as_json, none="nothing was measured")


def _about(seconds: float) -> str:
    made_at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return f"{made_at}, {os.cpu_count()} processors, {interpreter()}, {seconds:g} s for each workload"


def measured(
    directory: Path, seconds: float, say: Say, *, with_tls: bool = False, with_sweep: bool = False
) -> BenchRun:
    """Runs all workloads between two measurements of the baseline, and the sweep if requested."""
    say(f"Python: {interpreter()}")
    say(f"baseline: plain sockets, three receivers, 1 MiB blocks, fdatasync each ({seconds:g} s)")
    baselines = [measured_baseline(directory, seconds)]
    gc.freeze()  # docs/applications.md advises this for thousands of futures in flight
    results: list[WorkloadResult] = []
    with ExitStack() as stack:
        clusters = [stack.enter_context(plain_cluster(directory / "plain"))]
        if with_tls:
            clusters.append(stack.enter_context(tls_cluster(directory / "tls")))
        for workload in WORKLOADS:
            results += [_run_workload(cluster, workload, seconds, say) for cluster in clusters]
        sweep = [_run_workload(clusters[0], one, seconds, say) for one in SWEEP] if with_sweep else []
    single = _single(directory, seconds, say) if with_sweep else None
    say("baseline again")
    baselines.append(measured_baseline(directory, seconds))
    mb_per_s = sum(one.mb_per_s for one in baselines) / len(baselines)
    return BenchRun(
        _beside_lists([_beside(one, mb_per_s) for one in results]),
        [_beside(one, mb_per_s) for one in sweep],
        single,
    )


def _run_workload(cluster: BenchCluster, workload: Workload, seconds: float, say: Say) -> WorkloadResult:
    named = replace(workload, name=f"{workload.name}{cluster.suffix}")
    say(f"{named.name}: {format_bytes(named.entry_bytes)}, {named.in_flight} in flight ({seconds:g} s)")
    return measure(cluster, named, seconds)


def _single(directory: Path, seconds: float, say: Say) -> Baseline:
    """Measures the baseline's latency: one entry-sized block at a time."""
    size = SWEEP[0].entry_bytes
    say(
        f"baseline: plain sockets, blocks of {format_bytes(size)}, one in flight, fdatasync each ({seconds:g} s)"
    )
    return measured_baseline(directory, seconds, block_bytes=size, window=1)


def _beside(result: WorkloadResult, baseline: float) -> WorkloadResult:
    ratio = round(result.mb_per_s / baseline, 3)
    return replace(result, baseline_mb_per_s=round(baseline, 1), ratio=ratio)


def _beside_lists(results: Sequence[WorkloadResult]) -> list[WorkloadResult]:
    """Returns the results; for workloads with one future per entry, adds their throughput relative to that of appending
    the same entries in lists."""
    lists = {one.workload.replace(LISTS, ""): one.adds_per_s for one in results if LISTS in one.workload}
    rates = [lists.get(one.workload.replace(BLOCKING, "")) for one in results]
    return [
        replace(one, of_lists=round(one.adds_per_s / rate, 3)) if rate else one
        for one, rate in zip(results, rates, strict=True)
    ]


def measure(cluster: BenchCluster, workload: Workload, seconds: float) -> WorkloadResult:
    """Runs one workload for this many seconds, without a baseline."""
    cpu = cluster.cpu_meter()
    match workload.how:
        case How.READ | How.PAGES:
            measured = read(cluster.uri, cluster.config, workload, seconds, cpu)
        case How.BLOCKING:
            measured = append_blocking(cluster.uri, cluster.config, workload, seconds, cpu)
        case _:
            measured = asyncio.run(_append(cluster, workload, seconds, cpu))
    return measured.result(workload, cpu)


async def _append(cluster: BenchCluster, workload: Workload, seconds: float, cpu: CpuMeter) -> Measured:
    async with LedgerClient(cluster.uri, config=cluster.config) as client:
        return await append_async(client, workload, seconds, cpu)
