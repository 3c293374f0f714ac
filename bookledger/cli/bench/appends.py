"""Benchmark workloads that append entries or create ledgers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from ledgers import ClientConfig
from ledgers import LedgerClient as BlockingClient
from ledgers import WriteHandle as BlockingWriter
from ledgers.aio import LedgerClient, WriteHandle

from .cpu import CpuMeter
from .workloads import BATCH_ENTRIES, How, Measured, Workload, of_steps

ENSEMBLE_SIZE, ACK_QUORUM = 3, 2


async def append_async(client: LedgerClient, workload: Workload, seconds: float, cpu: CpuMeter) -> Measured:
    """Runs an asyncio workload after at most a second of warm-up."""
    return of_steps(*await _measured(client, workload, seconds, cpu))


def append_blocking(
    uri: str, config: ClientConfig, workload: Workload, seconds: float, cpu: CpuMeter
) -> Measured:
    """Runs a workload on the blocking client."""
    return of_steps(*_append_blocking(uri, config, workload, seconds, cpu))


async def _measured(
    client: LedgerClient, workload: Workload, seconds: float, cpu: CpuMeter
) -> tuple[list[float], float]:
    warm_up = min(1.0, seconds / 4)
    if workload.how is How.LEDGERS:
        await _make_ledgers_for(client, workload, warm_up)
        with cpu:
            return await _make_ledgers_for(client, workload, seconds)
    writers = [await created(client) for _ in range(workload.ledgers)]
    append = _append_batches_for if workload.how is How.BATCHES else _append_for
    share = replace(workload, in_flight=max(1, workload.in_flight // workload.ledgers))
    await asyncio.gather(*(append(writer, share, warm_up) for writer in writers))
    with cpu:
        measured = await asyncio.gather(*(append(writer, share, seconds) for writer in writers))
    for writer in writers:
        await writer.close()
        await client.delete_ledger(writer.ledger_id)
    return [one for latencies, _ in measured for one in latencies], max(took for _, took in measured)


async def created(client: LedgerClient) -> WriteHandle:
    return await client.create_ledger(ensemble_size=ENSEMBLE_SIZE, ack_quorum=ACK_QUORUM)


async def _make_ledgers_for(
    client: LedgerClient, workload: Workload, seconds: float
) -> tuple[list[float], float]:
    """Creates ledgers, `in_flight` at a time; each latency runs from just before the creation until just after the
    close."""
    payload, clock = workload.payload, time.perf_counter
    latencies: list[float] = []
    began = clock()

    async def make_ledgers() -> None:
        while (now := clock()) < began + seconds or not latencies:
            async with await created(client) as writer:
                if payload:
                    await writer.append(payload)
            latencies.append(clock() - now)

    await asyncio.gather(*(make_ledgers() for _ in range(workload.in_flight)))
    return latencies, clock() - began


async def _append_for(writer: WriteHandle, workload: Workload, seconds: float) -> tuple[list[float], float]:
    return await send_for(partial(writer.append_async, workload.payload), workload.in_flight, seconds)


async def send_for(
    send: Callable[[], Awaitable[asyncio.Future[int]]], in_flight: int, seconds: float
) -> tuple[list[float], float]:
    """Keeps `in_flight` appends in flight; latency is the time from the append until its confirmation is seen.

    The garbage collector tracks only one object per append, its future.
    """
    clock = time.perf_counter
    under_way: deque[asyncio.Future[int]] = deque()
    appended_at: deque[float] = deque()
    latencies: list[float] = []
    began = clock()
    end = began + seconds
    while (now := clock()) < end or under_way:
        while now < end and len(under_way) < in_flight:
            under_way.append(await send())
            appended_at.append(now)
        await under_way[0]
        now = clock()
        while under_way and under_way[0].done():
            under_way.popleft().result()
            latencies.append(now - appended_at.popleft())
    return latencies, clock() - began


async def _append_batches_for(
    writer: WriteHandle, workload: Workload, seconds: float
) -> tuple[list[float], float]:
    """Like `send_for`, but in batches; an entry's latency is that of its batch."""
    payloads, clock = [workload.payload] * BATCH_ENTRIES, time.perf_counter
    latencies: list[float] = []
    began = clock()

    async def append_lists() -> None:
        while (now := clock()) < began + seconds:
            await writer.append_batch(payloads)
            latencies.extend([clock() - now] * BATCH_ENTRIES)

    await asyncio.gather(*(append_lists() for _ in range(workload.in_flight // BATCH_ENTRIES)))
    return latencies, clock() - began


def _append_blocking(
    uri: str, config: ClientConfig, workload: Workload, seconds: float, cpu: CpuMeter
) -> tuple[list[float], float]:
    with BlockingClient(uri, config=config) as client:
        with client.create_ledger(ensemble_size=ENSEMBLE_SIZE, ack_quorum=ACK_QUORUM) as writer:
            _append_futures_for(writer, workload, min(1.0, seconds / 4))
            with cpu:
                measured = _append_futures_for(writer, workload, seconds)
        client.delete_ledger(writer.ledger_id)
    return measured


def _append_futures_for(
    writer: BlockingWriter, workload: Workload, seconds: float
) -> tuple[list[float], float]:
    payload, in_flight, clock = workload.payload, workload.in_flight, time.perf_counter
    under_way: deque[Future[int]] = deque()
    appended_at: deque[float] = deque()
    latencies: list[float] = []
    began = clock()
    end = began + seconds
    while (now := clock()) < end or under_way:
        while now < end and len(under_way) < in_flight:
            under_way.append(writer.append_async(payload))
            appended_at.append(now)
        under_way[0].result()
        now = clock()
        while under_way and under_way[0].done():
            under_way.popleft().result()
            latencies.append(now - appended_at.popleft())
    return latencies, clock() - began
