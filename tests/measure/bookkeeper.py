"""Appends and ledgers over three bookies of Apache BookKeeper with a ZooKeeper, and over three of ours with an etcd.

Both stand all the time, and are measured in turns. Everything is synced, ensemble and write quorum are 3, the ack
quorum is 2, digests are CRC32C. BookKeeper has the settings that help one append in flight most.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bookledger.cli.bench.command import BenchCluster, plain_cluster
from bookledger.cli.bench.command import measure as measure_ours
from bookledger.cli.bench.cpu import CpuMeter
from bookledger.cli.bench.workloads import How, Workload, WorkloadResult
from tests.interop.running import compiled
from tests.measure.hadoop import FULL_SPEED
from tests.support.etcd import EtcdServer, free_port
from tests.support.hadoop.jars import jars, java
from tests.support.waiting import until

VERSION = "bookkeeper-4.17.3"
ZOOKEEPER, BOOKIE = "org.apache.zookeeper.server.ZooKeeperServerMain", "org.apache.bookkeeper.server.Main"
ROUNDS = 3
SECONDS = 5.0
WORKLOADS = (
    Workload("one append in flight", 1000, 1),
    Workload("a hundred in flight", 1000, 100),
    Workload("ledgers without an entry", 0, 1, How.LEDGERS),
    Workload("ledgers of one entry", 1000, 1, How.LEDGERS),
    Workload("eight at a time, without", 0, 8, How.LEDGERS),
    Workload("eight at a time, of one", 1000, 8, How.LEDGERS),
)
WARM_UP = (
    Workload("a hundred in flight", 1000, 100),
    Workload("ledgers", 1000, 8, How.LEDGERS),
    Workload("one in flight", 1000, 1),
)
"""For what Java compiles only when it has run often."""

WARM_UP_SECONDS = 30.0
FLAGS = (*FULL_SPEED, "-XX:MaxDirectMemorySize=1g", "-Dzookeeper.admin.enableServer=false")
BOOKIE_SETTINGS = {
    "advertisedAddress": "127.0.0.1",
    "allowLoopback": "true",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.98",
    "journalFlushWhenQueueEmpty": "true",
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
}


async def measure(scratch: Path, share: float) -> None:
    if not (jars(VERSION) / f"bookkeeper-server-{VERSION.removeprefix('bookkeeper-')}.jar").exists():
        print(f"no BookKeeper in {jars(VERSION)}: run `make measure WHAT=bookkeeper`, which fetches it")
        return
    await asyncio.to_thread(_measure, scratch, share)


def _measure(scratch: Path, share: float) -> None:
    print("work | BookKeeper, processor time of client + servers | ours | ours : theirs, rate", flush=True)
    with _theirs(scratch / "theirs") as theirs, _ours(scratch / "ours") as ours:
        for workload in WARM_UP:
            theirs.measure(workload, WARM_UP_SECONDS * share)
        for workload in WORKLOADS:
            pairs = [
                (theirs.measure(workload, SECONDS * share), measure_ours(ours, workload, SECONDS * share))
                for _ in range(ROUNDS)
            ]
            _print(workload, pairs)


@dataclass(frozen=True, slots=True)
class _OnEtcd(BenchCluster):
    etcd_pid: int

    def cpu_meter(self) -> CpuMeter:
        """Counts etcd's time to that of the bookies."""
        return CpuMeter([self.etcd_pid, *(bookie.child.pid for bookie in self.bookies)])


@contextmanager
def _ours(directory: Path) -> Iterator[BenchCluster]:
    directory.mkdir()
    with (
        EtcdServer(directory) as etcd,
        plain_cluster(directory / "bookies", f"etcd://{etcd.endpoint}/bench") as plain,
    ):
        yield _OnEtcd(plain.uri, plain.config, plain.suffix, plain.bookies, etcd.pid)


class _Theirs:
    """A client of BookKeeper that measures, and the servers beside it."""

    def __init__(self, client: subprocess.Popen[str], servers: Sequence[subprocess.Popen[str]]) -> None:
        self._client = client
        self._servers = servers

    def hear(self, said: str = "") -> str:
        """The client's next line, which is this one."""
        assert self._client.stdout is not None
        line = self._client.stdout.readline().strip()
        assert line and (not said or line == said), f"the client said {line!r}"
        return line

    def measure(self, workload: Workload, seconds: float) -> WorkloadResult:
        how = "ledgers" if workload.how is How.LEDGERS else "appends"
        assert self._client.stdin is not None
        print(how, workload.entry_bytes, workload.in_flight, seconds, file=self._client.stdin, flush=True)
        self.hear("begins")
        client, servers = CpuMeter([self._client.pid]), CpuMeter([server.pid for server in self._servers])
        with client, servers:
            count, took, p50, p99 = map(float, self.hear().split())
        return WorkloadResult(
            workload.name,
            workload.entry_bytes,
            workload.in_flight,
            adds_per_s=count / took,
            mb_per_s=count * workload.entry_bytes / took / 1e6,
            p50_ms=p50,
            p99_ms=p99,
            client_cpu_us=1e6 * client.bookies_seconds / count,
            bookies_cpu_us=1e6 * servers.bookies_seconds / count,
        )


@contextmanager
def _theirs(directory: Path) -> Iterator[_Theirs]:
    directory.mkdir()
    classes = compiled(directory / "classes", Path(__file__).parent / "java" / "bookkeeper", VERSION)
    port = free_port()
    uri = f"zk+hierarchical://127.0.0.1:{port}/ledgers"
    with ExitStack() as stack:

        def started(name: str, main: str, *arguments: str, port: int = 0) -> subprocess.Popen[str]:
            process = stack.enter_context(_java(directory / name, classes, main, *arguments))
            until(lambda: not port or _listens(port))
            return process

        data = str(directory / "zookeeper" / "data")
        servers = [started("zookeeper", ZOOKEEPER, str(port), data, port=port)]
        theirs = _Theirs(started("client", "Ledgers", uri), servers)
        theirs.hear("made")
        for name in ("bookie-1", "bookie-2", "bookie-3"):
            port = free_port()
            settings = _settings(directory / f"{name}.conf", uri, port)
            servers.append(started(name, BOOKIE, "--conf", str(settings), port=port))
        yield theirs


def _settings(file: Path, uri: str, port: int) -> Path:
    data = file.with_suffix("")
    own = {"bookiePort": str(port), "metadataServiceUri": uri}
    own |= {"journalDirectories": f"{data}/journal", "ledgerDirectories": f"{data}/ledgers"}
    file.write_text("".join(f"{name}={value}\n" for name, value in (BOOKIE_SETTINGS | own).items()))
    return file


@contextmanager
def _java(directory: Path, classes: Path, main: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a directory of its own, ended as by a power cut: nobody needs what it holds."""
    directory.mkdir()
    command = java(VERSION, main, *arguments, configuration=classes, tmp=directory, flags=FLAGS)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=directory, text=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _print(workload: Workload, pairs: Sequence[tuple[WorkloadResult, WorkloadResult]]) -> None:
    ratio = median(ours.adds_per_s / theirs.adds_per_s for theirs, ours in pairs)
    theirs, ours = (_medians([pair[side] for pair in pairs]) for side in (0, 1))
    print(f"{workload.name:26} | {theirs} | {ours} | {ratio:.2f}", flush=True)


def _medians(results: Sequence[WorkloadResult]) -> str:
    def of(name: str) -> float:
        return median(float(getattr(result, name)) for result in results)

    processor_ms = f"{of('client_cpu_us') / 1000:.2f} + {of('bookies_cpu_us') / 1000:.2f}"
    return f"{of('adds_per_s'):7.0f}/s, p50 {of('p50_ms'):5.2f}, p99 {of('p99_ms'):5.2f}, processor {processor_ms} ms"
