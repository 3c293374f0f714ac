"""`bookledger journal bench`: flushes of a journal beside bare appends of the same size to a ledger, in the same run.

Rounds take turns, since machines are noisy. What a flush costs beyond its appends: the frames are verified
twice, by the stream and by the acceptor, and numbered, queued and counted; with three acceptors each edit
goes to three ledgers, nine copies on the bookies' disks.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from ledgers.aio import LedgerClient
from metadata.sqlite.uri import uri_of
from qjm_compat import AcceptorConfig, NamespaceInfo
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.edits import encode_frame
from qjm_compat.manager.output_stream import EditLogOutputStream

from ..options import Finite, json_option
from ..output import Say, narrator, print_records
from ..processes import bookie_processes
from ..scratch import scratch_directory

BATCH_BYTES = 8 * 1024
FRAMES = 32
"""Edits in a batch, of 256 bytes each: what an operation on a file takes, more or less."""

IN_FLIGHT = 64
ROUNDS = 4
ENSEMBLE_SIZE, ACK_QUORUM = 3, 2
NAMESPACE = NamespaceInfo(1, "bench")

_OPCODE = 3
_FRAME_BYTES_WITHOUT_BODY = 17

Send = Callable[[], Awaitable["asyncio.Future[int]"]]
"""Sends a batch; the future ends when it is on disk."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Batches with so many under way; to a bare ledger where there are no acceptors."""

    name: str
    acceptors: int
    in_flight: int


WORKLOADS = tuple(
    Workload(f"{what}, {how}", acceptors, in_flight)
    for how, in_flight in (("one in flight", 1), ("pipelined", IN_FLIGHT))
    for what, acceptors in (("ledger", 0), ("journal", 1), ("journal, 3 acceptors", 3))
)


@dataclass(slots=True)
class Measured:
    """What one workload has come to, over its rounds."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """`times_ledger`: how much longer than the bare ledger's a batch takes: the median, or its share of the time."""

    workload: str
    batch_bytes: int
    in_flight: int
    batches_per_s: float
    mb_per_s: float
    p50_ms: float
    p99_ms: float
    times_ledger: float


@click.command("bench")
@click.option("--seconds", default=5.0, type=Finite(0.1, 3600), show_default=True, help="For each workload.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory on the disk to measure [the system's temporary one].",
)
@json_option
def journal_bench(seconds: float, data: Path | None, as_json: bool) -> None:
    """Measure flushes of 8 KiB beside bare appends: three bookies, write quorum 3, ack quorum 2."""
    say = narrator(quiet=as_json)
    with scratch_directory("journal-bench", data, say) as directory:
        results = run(directory, seconds, say)
    print_records([asdict(result) for result in results], as_json=as_json, none="nothing was measured")


def run(directory: Path, seconds: float, say: Say) -> list[Result]:
    uri = uri_of(directory / "metadata.db")
    measured = {workload: Measured() for workload in WORKLOADS}
    with bookie_processes(ENSEMBLE_SIZE, directory, uri):
        asyncio.run(_rounds(uri, seconds / ROUNDS, measured, say))
    return [_result(workload, measured) for workload in WORKLOADS]


async def _rounds(uri: str, seconds: float, measured: dict[Workload, Measured], say: Say) -> None:
    """All workloads in turn, again and again, so that what else the machine does meets all of them."""
    for number in range(ROUNDS):
        say(f"round {number + 1} of {ROUNDS}: {len(WORKLOADS)} workloads, {seconds:g} s each")
        for workload in WORKLOADS:
            await _measure(uri, workload, f"bench-{number}", seconds, measured[workload])


def _result(workload: Workload, measured: dict[Workload, Measured]) -> Result:
    mine = measured[workload]
    bare = next(m for w, m in measured.items() if w.acceptors == 0 and w.in_flight == workload.in_flight)
    count = len(mine.latencies)
    return Result(
        workload=workload.name,
        batch_bytes=BATCH_BYTES,
        in_flight=workload.in_flight,
        batches_per_s=round(count / mine.seconds, 1),
        mb_per_s=round(count * BATCH_BYTES / mine.seconds / 1e6, 3),
        p50_ms=round(1000 * _percentile(mine, 50), 3),
        p99_ms=round(1000 * _percentile(mine, 99), 3),
        times_ledger=round(_cost(workload, mine) / _cost(workload, bare), 2),
    )


def _percentile(measured: Measured, percent: int) -> float:
    return sorted(measured.latencies)[len(measured.latencies) * percent // 100]


def _cost(workload: Workload, measured: Measured) -> float:
    if workload.in_flight == 1:
        return _percentile(measured, 50)
    return measured.seconds / len(measured.latencies)


async def _measure(uri: str, workload: Workload, name: str, seconds: float, into: Measured) -> None:
    opened = _ledger(uri) if workload.acceptors == 0 else _journal(uri, workload, name)
    async with opened as send:
        await _send_for(send, workload.in_flight, min(1.0, seconds / 4), Measured())  # warm up
        await _send_for(send, workload.in_flight, seconds, into)


@asynccontextmanager
async def _ledger(uri: str) -> AsyncIterator[Send]:
    payload = bytes(BATCH_BYTES)
    async with LedgerClient(uri) as client:
        writer = await client.create_ledger(ensemble_size=ENSEMBLE_SIZE, ack_quorum=ACK_QUORUM)
        async with writer:
            yield lambda: writer.append_async(payload)
        await client.delete_ledger(writer.ledger_id)


@asynccontextmanager
async def _journal(uri: str, workload: Workload, name: str) -> AsyncIterator[Send]:
    acceptors = [AcceptorConfig(f"jn{n}", uri) for n in range(1, workload.acceptors + 1)]
    journal_id = f"{name}-{workload.acceptors}-{workload.in_flight}"
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(
            QuorumJournalManager(uri, journal_id, acceptors=acceptors if len(acceptors) > 1 else None)
        )
        await manager.format(NAMESPACE)
        await manager.recover_unfinalized_segments()
        out = await stack.enter_async_context(await manager.start_log_segment(1))
        yield lambda: _flush(out)


async def _flush(out: EditLogOutputStream) -> asyncio.Future[int]:
    out.write_raw(_batch(out.next_txid), FRAMES)
    out.set_ready_to_flush()
    return await out.flush_async()


def _batch(first_txid: int) -> bytes:
    return b"".join([encode_frame(_OPCODE, txid, _BODY) for txid in range(first_txid, first_txid + FRAMES)])


_BODY = bytes(BATCH_BYTES // FRAMES - _FRAME_BYTES_WITHOUT_BODY)


async def _send_for(send: Send, in_flight: int, seconds: float, into: Measured) -> None:
    """Keeps so many batches under way; a latency ends when the confirmation is seen."""
    under_way: deque[tuple[float, asyncio.Future[int]]] = deque()
    clock = time.perf_counter
    began = clock()
    end = began + seconds
    while (now := clock()) < end or under_way:
        while now < end and len(under_way) < in_flight:
            under_way.append((now, await send()))
        await under_way[0][1]
        now = clock()
        while under_way and under_way[0][1].done():
            sent_at, future = under_way.popleft()
            future.result()
            into.latencies.append(now - sent_at)
    into.seconds += clock() - began
