"""A journal on three bookies: what it takes to become its writer, to roll a segment, to read it and to follow it."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

from bookledger.cli.processes import bookie_processes
from ledgers import ClientConfig
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.manager.output_stream import EditLogOutputStream
from tests.qjm_compat.gates import leave_out
from tests.qjm_compat.journals import NAMESPACE, frames, manager_on
from tests.support.aio import take

SEGMENT_TXNS, BATCH_TXNS, PATH_BYTES = 200_000, 100, 200
ROLLS = 50
FOLLOWED = 200


async def measure(scratch: Path, share: float) -> None:
    uri = f"sqlite://{scratch}/metadata.db"
    with bookie_processes(3, scratch, uri):
        for acceptors in (1, 3):
            async with manager(uri, acceptors) as writer:
                await writer.format(NAMESPACE)
            await _measure(uri, acceptors, share)


def manager(uri: str, acceptors: int) -> QuorumJournalManager:
    return manager_on(uri, acceptors, client_config=ClientConfig(), journal_id=f"with-{acceptors}")


async def _measure(uri: str, acceptors: int, share: float) -> None:
    name = f"{acceptors} acceptors" if acceptors > 1 else "1 acceptor"
    txns = int(SEGMENT_TXNS * share)
    async with manager(uri, acceptors) as old:
        await old.recover_unfinalized_segments()
        out = await old.start_log_segment(1)
        if acceptors > 1:
            await leave_out(old._set.loggers[-1])  # it will have to copy the whole segment
        size, seconds = await _fill(out, txns)
        print(f"{name}: {size / seconds / 1e6:.1f} MB/s written in batches of {BATCH_TXNS} edits", flush=True)
        async with manager(uri, acceptors) as writer:
            began = time.perf_counter()
            await writer.recover_unfinalized_segments()
            took = time.perf_counter() - began
            print(
                f"{name}: {took:.2f} s to take over from a writer with {size / 1e6:.0f} MB open", flush=True
            )
            await _read(writer, name, size)
            await _roll(writer, name, txns + 1)
            await _follow(uri, acceptors, writer, name, txns + 1 + ROLLS)


async def _fill(out: EditLogOutputStream, txns: int) -> tuple[int, float]:
    batches = [frames(first, BATCH_TXNS, path_bytes=PATH_BYTES) for first in range(1, txns, BATCH_TXNS)]
    began = time.perf_counter()
    for records in batches:
        out.write_raw(records, BATCH_TXNS)
        out.set_ready_to_flush()
        await out.flush_async()
    await out.flush()
    return sum(map(len, batches)), time.perf_counter() - began


async def _read(reader: QuorumJournalManager, name: str, size: int) -> None:
    began = time.perf_counter()
    (stream,) = await reader.select_input_streams(1)
    async with aclosing(stream.batches()) as batches:
        txns = sum([batch.num_txns async for batch in batches])
    took = time.perf_counter() - began
    print(f"{name}: {size / took / 1e6:.1f} MB/s, {txns / took:.0f} edits a second read", flush=True)


async def _roll(writer: QuorumJournalManager, name: str, first_txid: int) -> None:
    began = time.perf_counter()
    for txid in range(first_txid, first_txid + ROLLS):
        out = await writer.start_log_segment(txid)
        await _write_one(out)
        await out.close()
        await writer.finalize_log_segment(txid, txid)
    print(f"{name}: {1000 * (time.perf_counter() - began) / ROLLS:.1f} ms a segment of one edit", flush=True)


async def _follow(uri: str, acceptors: int, writer: QuorumJournalManager, name: str, first_txid: int) -> None:
    """From the start of a flush to when a follower in another process could have the edit."""
    out = await writer.start_log_segment(first_txid)
    delays = []
    async with manager(uri, acceptors) as reader, aclosing(reader.tail(first_txid)) as edits:
        for _ in range(FOLLOWED):
            following = asyncio.create_task(take(1, edits))
            began = time.perf_counter()
            await _write_one(out)
            await following
            delays.append(time.perf_counter() - began)
    await out.close()
    delays.sort()
    print(f"{name}: a follower has an edit after {1000 * delays[len(delays) // 2]:.0f} ms", flush=True)


async def _write_one(out: EditLogOutputStream) -> None:
    out.write_raw(frames(out.next_txid, 1), 1)
    out.set_ready_to_flush()
    await out.flush()
