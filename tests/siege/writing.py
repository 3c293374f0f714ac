"""The writer whose appends a siege measures."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from ledgers.aio import WriteHandle

ENTRY_BYTES = 1000


@dataclass(frozen=True)
class Written:
    """What a writer with so many in flight had confirmed."""

    appends_per_second: float
    p50_ms: float
    p99_ms: float
    longest_ms: float


async def write(writer: WriteHandle, seconds: float, in_flight: int) -> Written:
    """Keeps so many in flight for so long."""
    payload, took, end = bytes(ENTRY_BYTES), list[float](), time.monotonic() + seconds

    async def one_after_the_other() -> None:
        while (began := time.monotonic()) < end:
            await writer.append(payload)
            took.append(time.monotonic() - began)

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))
    took.sort()
    at = [round(took[int(len(took) * share)] * 1000, 2) for share in (0.5, 0.99)]
    return Written(round(len(took) / seconds), at[0], at[1], round(took[-1] * 1000, 1))
