"""`bookledger journal bench`: compares flushes of a journal with bare ledger appends of the same size, in one run.

The workloads take turns, round by round, because machines are noisy. A flush costs more than its appends: the frames
are verified once, and batches are numbered, queued and counted; with three acceptors each edit is written to three
ledgers, which makes nine copies on the bookies' disks. Decoded edits must also be created and encoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ledgers.aio import LedgerClient
from metadata.sqlite.sqlite_uri import uri_of
from qjm_compat import AcceptorConfig, NamespaceInfo
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.edits import encode_frame
from qjm_compat.edits.ops.namespace import Rename
from qjm_compat.manager.output_stream import EditLogOutputStream

from ..messages.help import command
from ..messages.interruption import advise_when_stopped, bookies_are_gone
from ..options import json_option, measuring_options
from ..output import ProgressBar, Say, narrator, print_records
from ..processes import bookie_processes, in_plain_text
from ..temporary_directories import scratch_directory
from .appends import ENSEMBLE_SIZE, created, send_for
from .workloads import Measured, together

BATCH_BYTES = 8 * 1024
LARGE_BATCH_BYTES = 256 * 1024

EDIT_BYTES = 256
"""Approximate size of a file operation."""

IN_FLIGHT = 64
ROUNDS = 4
NAMESPACE = NamespaceInfo(1, "bench")

_OPCODE = 3
_FRAME_BYTES_WITHOUT_BODY = 17

Send = Callable[[], Awaitable["asyncio.Future[int]"]]
"""Sends a batch; the future is done when the batch is on disk."""

Rounds = list[tuple[list[float], float]]
"""Results of one workload: for each round, the latencies and the total time."""


@dataclass(frozen=True, slots=True)
class JournalWorkload:
    """Writes batches to a journal, or to a bare ledger if there are no acceptors, with `in_flight` batches outstanding.

    `are_decoded`: the edits are passed one by one, as objects.
    """

    name: str
    acceptors: int
    in_flight: int
    batch_bytes: int = BATCH_BYTES
    are_decoded: bool = False

    @property
    def edits(self) -> int:
        return self.batch_bytes // EDIT_BYTES


WORKLOADS = (
    *(
        JournalWorkload(f"{what}, {how}", acceptors, in_flight)
        for how, in_flight in (("one in flight", 1), ("pipelined", IN_FLIGHT))
        for what, acceptors in (("ledger", 0), ("journal", 1), ("journal, 3 acceptors", 3))
    ),
    JournalWorkload("journal, decoded edits, one in flight", 1, 1, are_decoded=True),
    JournalWorkload("journal, 3 acceptors, decoded edits, one in flight", 3, 1, are_decoded=True),
    JournalWorkload("ledger, 256 KiB, one in flight", 0, 1, LARGE_BATCH_BYTES),
    JournalWorkload(
        "journal, 256 KiB of decoded edits, one in flight", 1, 1, LARGE_BATCH_BYTES, are_decoded=True
    ),
)


@dataclass(frozen=True, slots=True)
class JournalBenchResult:
    """`times_ledger`: how many times longer a batch takes than on a bare ledger. The time of a batch is the median
    latency if one batch is in flight, and otherwise the total time divided by the number of batches."""

    workload: str
    batch_bytes: int
    in_flight: int
    batches_per_s: float
    mb_per_s: float
    p50_ms: float
    p99_ms: float
    times_ledger: float


@command("bench")
@measuring_options
@json_option
def journal_bench(seconds: float, data: Path | None, as_json: bool) -> None:
    """Benchmark flushes of 8 KiB against bare appends: three bookies, write quorum 3, ack quorum 2.

    Examples:
        bookledger journal bench --seconds 2
    """
    in_plain_text()
    say = narrator(quiet=as_json)
    with (
        advise_when_stopped(bookies_are_gone),
        scratch_directory("journal-bench", data, say) as directory,
        ProgressBar("measuring", None, of="", prints=not as_json),
    ):
        results = run(directory, seconds, say)
    print_records([asdict(result) for result in results], as_json=as_json, none="nothing was measured")


def run(directory: Path, seconds: float, say: Say) -> list[JournalBenchResult]:
    uri = uri_of(directory / "metadata.db")
    rounds: dict[JournalWorkload, Rounds] = {workload: [] for workload in WORKLOADS}
    with bookie_processes(ENSEMBLE_SIZE, directory, uri):
        asyncio.run(_rounds(uri, seconds / ROUNDS, rounds, say))
    measured = {workload: together(of_it) for workload, of_it in rounds.items()}
    return [_result(workload, measured) for workload in WORKLOADS]


async def _rounds(uri: str, seconds: float, rounds: dict[JournalWorkload, Rounds], say: Say) -> None:
    """Runs all workloads in turn, repeatedly, so that other load on the machine affects all of them."""
    for number in range(ROUNDS):
        say(f"round {number + 1} of {ROUNDS}: {len(WORKLOADS)} workloads, {seconds:g} s each")
        for workload in WORKLOADS:
            rounds[workload].append(await _measure(uri, workload, f"bench-{number}", seconds))


def _result(workload: JournalWorkload, measured: dict[JournalWorkload, Measured]) -> JournalBenchResult:
    mine = measured[workload]
    bare = next(m for w, m in measured.items() if _is_bare(w, workload))
    return JournalBenchResult(
        workload=workload.name,
        batch_bytes=workload.batch_bytes,
        in_flight=workload.in_flight,
        batches_per_s=round(mine.entries / mine.seconds, 1),
        mb_per_s=round(mine.entries * workload.batch_bytes / mine.seconds / 1e6, 3),
        p50_ms=mine.ms(50),
        p99_ms=mine.ms(99),
        times_ledger=round(_cost(workload, mine) / _cost(workload, bare), 2),
    )


def _is_bare(one: JournalWorkload, workload: JournalWorkload) -> bool:
    """Returns whether `one` is the bare-ledger counterpart of `workload`."""
    same = (one.in_flight, one.batch_bytes) == (workload.in_flight, workload.batch_bytes)
    return one.acceptors == 0 and same


def _cost(workload: JournalWorkload, measured: Measured) -> float:
    if workload.in_flight == 1:
        return measured.ms(50)
    return 1000 * measured.seconds / measured.entries


async def _measure(
    uri: str, workload: JournalWorkload, name: str, seconds: float
) -> tuple[list[float], float]:
    opened = _ledger(uri, workload) if workload.acceptors == 0 else _journal(uri, workload, name)
    async with opened as send:
        await send_for(send, workload.in_flight, min(1.0, seconds / 4))  # warm up
        return await send_for(send, workload.in_flight, seconds)


@asynccontextmanager
async def _ledger(uri: str, workload: JournalWorkload) -> AsyncIterator[Send]:
    payload = bytes(workload.batch_bytes)
    async with LedgerClient(uri) as client:
        async with await created(client) as writer:
            yield partial(writer.append_async, payload)
        await client.delete_ledger(writer.ledger_id)


@asynccontextmanager
async def _journal(uri: str, workload: JournalWorkload, name: str) -> AsyncIterator[Send]:
    acceptors = [AcceptorConfig(f"jn{n}", uri) for n in range(1, workload.acceptors + 1)]
    journal_id = f"{name}-{WORKLOADS.index(workload)}"
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(
            QuorumJournalManager(uri, journal_id, acceptors=acceptors if len(acceptors) > 1 else None)
        )
        await manager.format(NAMESPACE)
        await manager.recover_unfinalized_segments()
        out = await stack.enter_async_context(await manager.start_log_segment(1))
        write = _write_decoded if workload.are_decoded else _write_frames
        yield lambda: _flush(out, write, workload.edits)


async def _flush(
    out: EditLogOutputStream, write: Callable[[EditLogOutputStream, int], None], edits: int
) -> asyncio.Future[int]:
    write(out, edits)
    out.set_ready_to_flush()
    return await out.flush_async()


def _write_frames(out: EditLogOutputStream, edits: int) -> None:
    first = out.next_txid
    frames = [encode_frame(_OPCODE, txid, _BODY) for txid in range(first, first + edits)]
    out.write_raw(b"".join(frames), edits)


def _write_decoded(out: EditLogOutputStream, edits: int) -> None:
    """Writes edits that each rename a file to its final name, as table writers do."""
    for txid in range(out.next_txid, out.next_txid + edits):
        name = f"{txid:010d}"
        out.write(
            Rename(
                txid=txid,
                source=_SOURCE + name,
                target=_TARGET + name,
                timestamp_ms=1_700_000_000_000,
                options=(),
                rpc_client_id=_CLIENT,
                rpc_call_id=txid & 0xFFFF,
            )
        )


_BODY = bytes(EDIT_BYTES - _FRAME_BYTES_WITHOUT_BODY)
_CLIENT = bytes(range(16))
_SOURCE = "/warehouse/sales.db/orders/.staging/".ljust(90, "x")
_TARGET = "/warehouse/sales.db/orders/day=2026-11-23/".ljust(91, "x")
