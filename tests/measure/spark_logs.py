"""The logs of a set on Spark, beside `format("ledger")` over the same ledgers, and Parquet with the same records."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient
from spark.session import session_on

from .spark import CONFIG

BYTES = 10_000_000_000
RECORD_BYTES = 1000
LOGS = 40
BATCH_RECORDS = 1000
ROUNDS = 3
"""They take turns, and the best of each counts; the first one also starts workers."""


async def measure(scratch: Path, share: float) -> None:
    await asyncio.to_thread(_measure, scratch, share)


def _measure(scratch: Path, share: float) -> None:
    uri, batches = f"sqlite://{scratch}/metadata.db", int(BYTES * share / RECORD_BYTES / BATCH_RECORDS / LOGS)
    records = batches * BATCH_RECORDS * LOGS
    with bookie_processes(3, scratch, uri):
        ledgers = _write(uri, batches)
        session = session_on(
            "local[2]", "measure", config=CONFIG | {"spark.local.dir": str(scratch / "local")}
        )
        session.sparkContext.setLogLevel("OFF")
        try:
            _compare(session, uri, scratch / "parquet", ledgers, records)
        finally:
            session.stop()


def _write(uri: str, batches: int) -> str:
    """So many batches in each log; one copy of each. Returns the ids of their ledgers, as an option has them."""
    pool, began = os.urandom(2 * RECORD_BYTES * BATCH_RECORDS), time.monotonic()
    payloads = [pool[n * 997 :][:RECORD_BYTES] for n in range(BATCH_RECORDS)]
    with LedgerClient(uri) as client:
        client.log_set("measured", LOGS, write_quorum=1)
        ids = []
        for number in range(LOGS):
            log = client.log(f"measured.{number}")
            with log.writer() as writer:
                for _ in range(batches):
                    writer.append_batch(payloads)
            ids += [one.ledger_id for one in log.segments()]
    print(f"wrote {LOGS} logs, {len(ids)} ledgers in {time.monotonic() - began:.0f} s", flush=True)
    return ",".join(map(str, sorted(ids)))


def _compare(session: SparkSession, uri: str, parquet: Path, ledgers: str, records: int) -> None:
    of_set = {"metadata": uri, "set": "measured", "columns": "position,payload"}
    of_ledgers = {"metadata": uri, "ledgers": ledgers, "columns": "entry_id,payload"}
    logs = session.read.format("log").options(**of_set).load()
    entries = session.read.format("ledger").options(**of_ledgers).load()
    logs.write.parquet(str(parquet))
    frames: dict[str, Callable[[], DataFrame]] = {
        "logs": lambda: logs,
        "ledgers": lambda: entries,
        "Parquet": lambda: session.read.parquet(str(parquet)),
    }
    best: dict[str, tuple[float, float]] = {}
    for _ in range(ROUNDS):
        for name, frame in frames.items():
            began, cpu = time.monotonic(), _cpu_seconds()
            (row,) = frame().agg(f.count("*"), f.sum(f.length("payload"))).collect()
            found = time.monotonic() - began, _cpu_seconds() - cpu
            assert row[0] == records, row
            best[name] = min(best.get(name, found), found, key=lambda one: one[1])
    for name, (seconds, cpu) in best.items():
        rate = records * RECORD_BYTES / seconds / 1e6
        print(f"{name}, to a count: {rate:.0f} MB/s, {cpu:.1f} s of processor in all", flush=True)
    print(f"logs to ledgers by processor time: {best['ledgers'][1] / best['logs'][1]:.2f}", flush=True)
    shutil.rmtree(parquet)


def _cpu_seconds() -> float:
    """Of this process and all below it: driver, workers and bookies."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
