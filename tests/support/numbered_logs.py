"""Logs whose records are numbers."""

from __future__ import annotations

from ledgers.logs.log import Log


async def fill(log: Log, *numbers: int) -> None:
    """Takes the log over, appends these, and ends."""
    async with await log.writer() as writer:
        for n in numbers:
            await writer.append(b"%d" % n)


async def numbers(log: Log, start: int | None = None) -> list[int]:
    """All that is left and confirmed."""
    return [int(record.payload) async for record in log.read(start)]
