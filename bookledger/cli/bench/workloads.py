"""The workloads of `bookledger bench`, and their results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .cpu import CpuMeter


class How(StrEnum):
    """How a workload runs.

    FUTURES: in asyncio, with a future for each append. BATCHES: in asyncio, appending lists of BATCH_ENTRIES entries.
    BLOCKING: with the blocking client's futures. LEDGERS: in asyncio, ledgers are created, given one entry each unless
    the entry size is 0, and closed. READ: the blocking client reads a closed ledger entry by entry. PAGES: the blocking
    client reads a closed ledger in pages, which are in columns.
    """

    FUTURES = "futures"
    BATCHES = "batches"
    BLOCKING = "blocking"
    LEDGERS = "ledgers"
    READ = "read"
    PAGES = "pages"


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload that appends entries of one size to `ledgers` ledgers, with `in_flight` entries outstanding; or one
    that creates ledgers, `in_flight` at a time."""

    name: str
    entry_bytes: int
    in_flight: int
    how: How = How.FUTURES
    ledgers: int = 1

    @property
    def payload(self) -> bytes:
        repeated = bytes(range(256)) * (self.entry_bytes // 256 + 1)
        return repeated[: self.entry_bytes]


BATCH_ENTRIES = 100

LISTS, BLOCKING = ", batches", ", blocking"
"""Suffixes that distinguish the names of otherwise identical workloads."""

WORKLOADS = (
    Workload("throughput", 1000, 4000),
    Workload(f"throughput{LISTS}", 1000, 4000, How.BATCHES),
    Workload(f"throughput{BLOCKING}", 1000, 4000, How.BLOCKING),
    Workload("small entries", 100, 8000),
    Workload(f"small entries{LISTS}", 100, 8000, How.BATCHES),
    Workload(f"small entries{BLOCKING}", 100, 8000, How.BLOCKING),
    Workload("a hundred in flight", 1000, 100),
    Workload("a hundred ledgers", 1000, 4000, ledgers=100),
    Workload("a thousand ledgers", 1000, 4000, ledgers=1000),
    Workload("one in flight", 1000, 1),
    Workload("ledgers made and closed", 1000, 1, How.LEDGERS),
    Workload("reading", 1000, 1, How.READ),
    Workload("reading, pages", 1000, 1, How.PAGES),
)

SWEEP = tuple(Workload(f"{count} in flight", 1000, count) for count in (1, 4, 16, 64, 256, 1024, 4096))
"""Workloads with the same entries but increasing numbers in flight, for `--html`."""


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """For workloads that read, `adds_per_s` counts the entries read, and latencies are per page, not per entry.

    `client_cpu_us`: the client's CPU time per entry; `bookies_cpu_us`: that of all bookies together. `of_lists`: the
    rate relative to that of appending the same entries in lists; 0 if that was not measured.
    """

    workload: str
    entry_bytes: int
    in_flight: int
    adds_per_s: float
    mb_per_s: float
    p50_ms: float
    p99_ms: float
    client_cpu_us: float = 0.0
    bookies_cpu_us: float = 0.0
    baseline_mb_per_s: float = 0.0
    ratio: float = 0.0
    of_lists: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of a workload: number of entries, sorted durations of its steps, and total duration; durations are
    in seconds."""

    entries: int
    steps: list[float]
    seconds: float

    def ms(self, percent: int) -> float:
        """Returns the duration of a step at this percentile, in milliseconds."""
        return round(1000 * self.steps[len(self.steps) * percent // 100], 3)

    def result(self, workload: Workload, cpu: CpuMeter) -> WorkloadResult:
        return WorkloadResult(
            workload=workload.name,
            entry_bytes=workload.entry_bytes,
            in_flight=workload.in_flight,
            adds_per_s=round(self.entries / self.seconds, 1),
            mb_per_s=round(self.entries * workload.entry_bytes / self.seconds / 1e6, 3),
            p50_ms=self.ms(50),
            p99_ms=self.ms(99),
            client_cpu_us=round(1e6 * cpu.client_seconds / self.entries, 2),
            bookies_cpu_us=round(1e6 * cpu.bookies_seconds / self.entries, 2),
        )


def of_steps(latencies: list[float], seconds: float) -> Measured:
    """Returns measurements with one entry per step."""
    return Measured(len(latencies), sorted(latencies), seconds)


def together(rounds: Iterable[tuple[list[float], float]]) -> Measured:
    """Combines rounds of one workload, each given as the latencies of its steps and its total time."""
    every = list(rounds)
    return of_steps([one for latencies, _ in every for one in latencies], sum(took for _, took in every))
