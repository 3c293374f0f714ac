"""CPU time used during a workload by this process, which runs the client, and by the bookies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Self

from prometheus_client import ProcessCollector

_CPU = "process_cpu_seconds_total"


class CpuMeter:
    """Measures CPU time during the block it wraps, after warm-up. Counts all threads; the kernel reports the bookies'
    CPU time in steps of 10 ms."""

    def __init__(self, bookie_pids: Sequence[int]) -> None:
        self._bookies = [ProcessCollector(pid=partial(int, pid), registry=None) for pid in bookie_pids]
        self.client_seconds = self.bookies_seconds = 0.0

    def __enter__(self) -> Self:
        self.bookies_seconds = -self._of_bookies()
        self.client_seconds = -time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.client_seconds += time.process_time()
        self.bookies_seconds += self._of_bookies()

    def _of_bookies(self) -> float:
        return sum(
            sample.value
            for bookie in self._bookies
            for metric in bookie.collect()
            for sample in metric.samples
            if sample.name == _CPU
        )
