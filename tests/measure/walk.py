"""The modules and functions of the product that one append, one append to a log, and one take-over pass through."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from ledgers.aio import LedgerClient
from tests.support.in_process import cluster_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("metadata", "bookie", "ledgers", "bookledger")
WARM = 3
"""Calls before the one that is counted: what is loaded or connected once is no part of the walk."""


async def measure(scratch: Path, share: float) -> None:
    del share
    async with cluster_of(scratch, 3) as cluster, LedgerClient(cluster.uri) as client:
        async with await client.create_ledger() as ledger:
            await _print_walk("an append", ledger.append, b"entry")
        log = await client.create_log("walked")
        async with await log.writer() as writer:
            await _print_walk("an append to a log", writer.append, b"record")

        async def take_over(_: bytes) -> None:
            async with await log.writer():
                pass

        await _print_walk("a take-over of a log, and closing it", take_over, b"")


async def _print_walk(what: str, call: Callable[[bytes], Awaitable[object]], payload: bytes) -> None:
    for _ in range(WARM):
        await call(payload)
    await asyncio.sleep(0.2)  # acknowledgements of the third replica
    passed: set[CodeType] = set()
    with _recording(passed):
        await call(payload)
    modules = {Path(code.co_filename).relative_to(ROOT) for code in passed}
    print(f"{what}: {len(modules)} modules, {len(passed)} functions", flush=True)


@contextmanager
def _recording(passed: set[CodeType]) -> Iterator[None]:
    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(inside):
            passed.add(frame.f_code)

    inside = tuple(f"{ROOT}/{package}/" for package in PACKAGES)
    sys.setprofile(record)
    try:
        yield
    finally:
        sys.setprofile(None)
