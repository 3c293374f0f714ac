"""Benchmark workloads that read a ledger in order, repeatedly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from ledgers import ClientConfig, LedgerClient, ReadHandle

from .appends import ACK_QUORUM, ENSEMBLE_SIZE
from .cpu import CpuMeter
from .workloads import How, Measured, Workload

STEP_ENTRIES = 1000
"""Approximately the number of entries in a page."""

READ_BYTES = 200_000_000
"""Maximum number of bytes in the ledger that is read repeatedly; they stay in the page cache."""


def read(uri: str, config: ClientConfig, workload: Workload, seconds: float, cpu: CpuMeter) -> Measured:
    """Reads with the blocking client for this many seconds, after reading the whole ledger once."""
    with LedgerClient(uri, config=config) as client:
        ledger_id = _written(client, workload, min(1.0, seconds / 5))
        reader = client.open_ledger(ledger_id)
        take = _pages if workload.how is How.PAGES else _entries
        sum(take(reader))
        entries, steps, began = 0, list[float](), time.perf_counter()
        end = before = began
        with cpu:
            while end < began + seconds:
                for count in take(reader):
                    end = time.perf_counter()
                    entries += count
                    steps.append(end - before)
                    before = end
        client.delete_ledger(ledger_id)
    return Measured(entries, sorted(steps), end - began)


def _written(client: LedgerClient, workload: Workload, share: float) -> int:
    payload = workload.payload
    with client.create_ledger(ensemble_size=ENSEMBLE_SIZE, ack_quorum=ACK_QUORUM) as writer:
        for _ in range(int(READ_BYTES * share) // workload.entry_bytes):
            writer.append_async(payload)
    return writer.ledger_id


def _pages(reader: ReadHandle) -> Iterator[int]:
    """Yields the number of entries of each page."""
    return map(len, reader.pages())


def _entries(reader: ReadHandle) -> Iterator[int]:
    """Yields the number of entries in each step. A step has many entries, because timing every entry would take a tenth
    of the time."""
    entries = reader.read()
    while count := sum(1 for _ in islice(entries, STEP_ENTRIES)):
        yield count
