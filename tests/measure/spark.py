"""Replay on Spark beside what Spark makes of the same bytes in local files; many small ledgers; a task's memory.

Everything is on this machine: three bookies, a driver, two tasks at a time. Each figure is the best of some rounds,
which take turns.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient, WriteHandle
from ledgers.aio import LedgerClient as AsyncLedgerClient
from spark.session import session_on

from .spark_file import RecordsDataSource

BYTES = 2_000_000_000
ENTRY_BYTES = 1000
LEDGERS = 4
ROUNDS = 3
"""The first one also starts workers."""
SKEWED = ((5_000_000, 100), (5_000, 1_000_000))
"""Entries of a ledger, and their bytes: so many, and behind them so many of another size."""
SMALL_LEDGERS = 10_000
SMALL_AT_ONCE = 64
WINDOW = 4000
FILE_ENTRIES = 50_000

TELLS_WORKERS_APART = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
"""A setting that reaches workers as a variable: those with different ones are not shared."""

CONFIG = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.compression.codec": "uncompressed",
}


async def measure(scratch: Path, share: float) -> None:
    await asyncio.to_thread(_measure, scratch, share)


async def measure_counts(scratch: Path, share: float) -> None:
    """One JSON object, as `bookledger bench` prints them: a count of ledgers beside the same bytes in local files."""
    await asyncio.to_thread(_measure_counts, scratch, share)


def _measure(scratch: Path, share: float) -> None:
    uri, entries = f"sqlite://{scratch}/metadata.db", int(BYTES * share / ENTRY_BYTES / LEDGERS)
    with _spark_beside_bookies(scratch, uri, entries) as session:
        _compare(session, uri, scratch, entries * LEDGERS)
        _memory(session, uri, entries)
        _skewed(session, uri, share)
        _small(session, uri, int(SMALL_LEDGERS * share))


def _measure_counts(scratch: Path, share: float) -> None:
    uri, entries = f"sqlite://{scratch}/metadata.db", int(BYTES * share / ENTRY_BYTES / LEDGERS)
    with _spark_beside_bookies(scratch, uri, entries) as session:
        ledgers, files, parquet = _frames(session, uri, scratch)
        ledgers.write.parquet(str(parquet))
        works: dict[str, Callable[[], object]] = {
            "ledgers": lambda: _count(ledgers, entries * LEDGERS),
            "file": _in_other_workers(session, lambda: _count(files, entries * LEDGERS)),
            "parquet": lambda: _count(session.read.parquet(str(parquet)), entries * LEDGERS),
        }
        best = _best_of(works)
    told = {
        "workload": "Spark, ledgers to a count",
        "entry_bytes": ENTRY_BYTES,
        "adds_per_s": round(entries * LEDGERS / best["ledgers"], 1),
        "mb_per_s": round(entries * LEDGERS * ENTRY_BYTES / best["ledgers"] / 1e6, 3),
        "file_share": round(best["file"] / best["ledgers"], 3),
        "parquet_share": round(best["parquet"] / best["ledgers"], 3),
    }
    print(json.dumps(told), flush=True)


@contextmanager
def _spark_beside_bookies(scratch: Path, uri: str, entries: int) -> Iterator[SparkSession]:
    """A session, three bookies with LEDGERS of so many entries, and the same bytes in files."""
    with bookie_processes(3, scratch, uri):
        began = time.monotonic()
        _write(uri, entries, scratch / "records")
        seconds = time.monotonic() - began
        print(f"wrote {LEDGERS} ledgers of {entries} entries in {seconds:.0f} s", file=sys.stderr, flush=True)
        session = session_on(
            "local[2]", "measure", config=CONFIG | {"spark.local.dir": str(scratch / "local")}
        )
        session.sparkContext.setLogLevel("OFF")
        session.dataSource.register(RecordsDataSource)
        try:
            yield session
        finally:
            session.stop()


def _write(uri: str, entries: int, records: Path) -> None:
    """The same bytes in ledgers and in files of FILE_ENTRIES each."""
    pool = os.urandom(4 * ENTRY_BYTES * 256)
    records.mkdir()
    with LedgerClient(uri) as client:
        for number in range(LEDGERS):
            with client.create_ledger(custom_metadata={"kind": b"large"}) as writer:
                for first in range(0, entries, FILE_ENTRIES):
                    starts = [n * 997 % (len(pool) - ENTRY_BYTES) for n in range(first, first + FILE_ENTRIES)]
                    payloads = [pool[start : start + ENTRY_BYTES] for start in starts[: entries - first]]
                    (records / f"{number}-{first:09}.bin").write_bytes(b"".join(payloads))
                    _append(writer, payloads)


def _append(writer: WriteHandle, payloads: list[bytes]) -> None:
    under_way: deque[Future[int]] = deque()
    for payload in payloads:
        under_way.append(writer.append_async(payload))
        if len(under_way) > WINDOW:
            under_way.popleft().result()
    writer.flush()


def _frames(session: SparkSession, uri: str, scratch: Path) -> tuple[DataFrame, DataFrame, Path]:
    """The ledgers, the files with the same bytes, and where they may be written as Parquet."""
    ledgers = session.read.format("ledger").option("metadata", uri).option("custom.kind", "large").load()
    files = session.read.format("records").option("path", str(scratch / "records")).load()
    return ledgers.select("ledger_id", "entry_id", "payload"), files, scratch / "parquet"


def _compare(session: SparkSession, uri: str, scratch: Path, entries: int) -> None:
    ids, files, parquet = _frames(session, uri, scratch)
    copy = scratch / "copy"
    ids.write.parquet(str(parquet))
    whole = session.read.format("binaryFile").load(str(scratch / "records")).select(f.length("content"))
    records = [str(path) for path in sorted((scratch / "records").iterdir())]
    works: dict[str, Callable[[], object]] = {
        "ledgers, to a count": lambda: _count(ids, entries),
        "ledgers, to Parquet": lambda: ids.write.parquet(str(copy), mode="overwrite"),
        "binary file, 1000-byte records in the JVM, to a count": lambda: _jvm_records(
            session, records, entries
        ),
        "binary file through Spark's Python API, to a count": _in_other_workers(
            session, lambda: _count(files, entries)
        ),
        "binary file through Spark's Python API, to Parquet": _in_other_workers(
            session, lambda: files.write.parquet(str(copy), mode="overwrite")
        ),
        "binary file, whole files": lambda: whole.agg(f.sum("length(content)")).collect(),
        "Parquet, to a count": lambda: _count(session.read.parquet(str(parquet)), entries),
        "Parquet, to Parquet": lambda: session.read.parquet(str(parquet)).write.parquet(
            str(copy), mode="overwrite"
        ),
    }
    for name, seconds in _best_of(works).items():
        print(f"{name}: {entries * ENTRY_BYTES / seconds / 1e6:.0f} MB/s", flush=True)
    shutil.rmtree(copy)
    shutil.rmtree(parquet)


def _in_other_workers(session: SparkSession, work: Callable[[], object]) -> Callable[[], object]:
    """The work, in Python workers that have never read a ledger: reading changes how a process allocates memory."""

    def run() -> None:
        session.conf.set(TELLS_WORKERS_APART, "true")
        work()
        session.conf.set(TELLS_WORKERS_APART, "false")

    return run


def _best_of(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The best of ROUNDS, which take turns, in seconds."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, work in works.items():
            best[name] = min(best[name], seconds := _seconds(work))
            print(f"  {name}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return best


def _count(frame: DataFrame, entries: int) -> None:
    (row,) = frame.agg(f.count("*"), f.sum(f.length("payload")), f.sum("entry_id")).collect()
    assert tuple(row)[:2] == (entries, entries * ENTRY_BYTES), row


def _jvm_records(session: SparkSession, paths: list[str], entries: int) -> None:
    context = session.sparkContext
    assert context._jsc is not None
    found = context._jsc.binaryRecords(",".join(paths), ENTRY_BYTES).count()
    assert found == entries


def _memory(session: SparkSession, uri: str, entries: int) -> None:
    """One task over a quarter of it, and one over all of it."""
    reader = session.read.format("ledger").option("metadata", uri).option("partitions_min", "1")
    reader = reader.option("partition_bytes", str(10 * BYTES))
    for ledgers in (1, LEDGERS):
        frame = reader.option("ledgers", ",".join(map(str, range(1, ledgers + 1)))).load()
        with _largest_worker() as peak:
            _count(frame, ledgers * entries)
        print(
            f"one task over {ledgers * entries * ENTRY_BYTES / 1e9:.2f} GB: its Python took {peak[0]} MiB at most",
            flush=True,
        )


@contextmanager
def _largest_worker() -> Iterator[list[int]]:
    """The most memory that a Python worker of Spark's has at any moment meanwhile, in MiB."""
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            peak[0] = max([peak[0], *(_private_mib(worker) for worker in _workers())])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def _workers() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    daemons = {child.pid for child in children if _is_daemon(child)}
    return [child for child in children if child.ppid() in daemons]


def _is_daemon(process: psutil.Process) -> bool:
    try:
        return "pyspark.daemon" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _private_mib(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss - process.memory_info().shared) >> 20
    except psutil.NoSuchProcess:
        return 0


def _skewed(session: SparkSession, uri: str, share: float) -> None:
    """How equal the tasks are over a ledger of very different entries."""
    with LedgerClient(uri) as client, client.create_ledger(ack_quorum=3) as writer:
        for entries, size in SKEWED:
            payloads = [os.urandom(size)] * int(entries * share)
            for first in range(0, len(payloads), FILE_ENTRIES):
                _append(writer, payloads[first : first + FILE_ENTRIES])
    frame = session.read.format("ledger").option("metadata", uri).option("ledgers", writer.ledger_id).load()
    tasks = frame.select("payload").mapInArrow(_task, "entries long, payload_bytes long, seconds double")
    began = time.monotonic()
    rows = tasks.collect()
    print(f"{len(rows)} tasks over entries of {SKEWED}: {time.monotonic() - began:.1f} s", flush=True)
    for column in tasks.columns:
        told = sorted(row[column] for row in rows)
        print(f"  {column} of a task: {told[0]:.9g} to {told[-1]:.9g}", flush=True)


def _task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What one task read, in one row."""
    entries, payload_bytes, began = 0, 0, time.monotonic()
    for batch in batches:
        entries += batch.num_rows
        payload_bytes += batch.column(0).nbytes
    seconds = time.monotonic() - began
    yield pa.RecordBatch.from_pydict(
        {"entries": [entries], "payload_bytes": [payload_bytes], "seconds": [seconds]}
    )


def _small(session: SparkSession, uri: str, count: int) -> None:
    asyncio.run(_write_small(uri, count))
    for _ in range(2):
        began = time.monotonic()
        frame = session.read.format("ledger").option("metadata", uri).option("custom.kind", "small").load()
        (row,) = frame.agg(f.count("*"), f.countDistinct("ledger_id")).collect()
        assert tuple(row) == (5 * count, count), row
        print(f"{count} ledgers of 5 entries in one job: {time.monotonic() - began:.1f} s", flush=True)


async def _write_small(uri: str, count: int) -> None:
    async with AsyncLedgerClient(uri) as client:
        left = iter(range(count))

        async def write_some() -> None:
            for _ in left:
                writer = await client.create_ledger(custom_metadata={"kind": b"small"})
                for future in [await writer.append_async(bytes(100)) for _ in range(5)]:
                    await future
                await writer.close()

        await asyncio.gather(*(write_some() for _ in range(SMALL_AT_ONCE)))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
