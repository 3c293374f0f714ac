"""What very many logs cost while nobody uses them: their retention, their cursors, and listing them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import psutil

from bookledger.cli.processes import bookie_processes
from metadata import opened_store
from metadata.records.coordination.cursor_record import CursorRecord, CursorStore
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.retention import Retention
from tests.support.etcd import EtcdServer

from .processes import cpu_seconds

LOGS = (1000, 10_000)
AT_ONCE = 200
IDLE_SECONDS = 120.0
WEEK_SECONDS = 7 * 86_400


async def measure(scratch: Path, share: float) -> None:
    with EtcdServer(scratch) as etcd:
        uri = f"etcd://{etcd.endpoint}/scale"
        with bookie_processes(2, scratch, uri) as bookies:
            before = 0
            for count in (max(1, int(one * share)) for one in LOGS):
                await _make(uri, before, count)
                before = count
                assert etcd._process is not None
                busy = [psutil.Process(one.child.pid) for one in bookies]
                was, etcd_was = (
                    [cpu_seconds(one) for one in busy],
                    cpu_seconds(psutil.Process(etcd._process.pid)),
                )
                await asyncio.sleep(IDLE_SECONDS * share)
                spent = max(cpu_seconds(one) - then for one, then in zip(busy, was, strict=True))
                etcd_spent = cpu_seconds(psutil.Process(etcd._process.pid)) - etcd_was
                minutes = IDLE_SECONDS * share / 60
                began = time.monotonic()
                listed = [sys.executable, "-m", "bookledger", "log", "list", f"--metadata={uri}", "--json"]
                await asyncio.to_thread(subprocess.run, listed, stdout=subprocess.DEVNULL, check=True)
                took = time.monotonic() - began
                print(
                    f"{count} logs with retention and a cursor each: of the processor the auditor's bookie takes "
                    f"{spent / minutes:.2f} s a minute, etcd {etcd_spent / minutes:.2f} s; log list {took:.1f} s",
                    flush=True,
                )


async def _make(uri: str, first: int, end: int) -> None:
    retention = Retention(age_seconds=WEEK_SECONDS)
    async with opened_store(uri) as store:
        logs = LogStore(store)

        async def one(number: int) -> None:
            identity = number.to_bytes(16)
            record = LogRecord(identity, f"log-{number}", retention=retention)
            await logs.create(record)
            await logs.give_name(record.name, identity)
            await CursorStore(store, identity).create("reader", CursorRecord(0))

        for start in range(first, end, AT_ONCE):
            await asyncio.gather(*map(one, range(start, min(end, start + AT_ONCE))))
