"""A service that receives sales from many tills at once, stores each once, and answers from the log that it has read.

    python examples/ingest.py LOG      # then lines like: till-7 1841 250 (till, number of its sale, cents)

The answer is "till-7 1841 POSITION TOTAL", where TOTAL sums all sales of the till. A till sends one sale at a time. If
it gets no answer, it sends the same line again, to the process that serves by then, and the sale is stored once.
"""

import asyncio
import os
import sys
from collections import Counter

from bookledger.errors import LogFenced, SequenceTooOld
from ledgers.aio import LedgerClient, Log, LogWriter

SALES_MAX = 100
"""The number of sales handled at a time; further lines wait to be read."""


class Totals:
    """The total sales of each till, up to the position that was read."""

    def __init__(self) -> None:
        self.cents: Counter[str] = Counter()
        self._end = 0
        self._has_read = asyncio.Condition()

    async def follow(self, log: Log) -> None:
        async for batch in log.tail_batches():
            for record in batch.records():
                till, _, cents = record.payload.decode().split()
                self.cents[till] += int(cents)
            async with self._has_read:
                self._end = batch.positions[-1] + 1
                self._has_read.notify_all()

    async def through(self, position: int) -> None:
        """Waits until the record at this position was read, so that a writer reads its own writes."""
        async with self._has_read:
            await self._has_read.wait_for(lambda: position < self._end)


async def answer(writer: LogWriter, totals: Totals, line: str) -> str:
    match line.split():
        case [till, number, cents] if number.isdecimal() and cents.isdecimal():
            sale = f"{till} {number} {cents}".encode()
        case _:
            return "say: TILL NUMBER CENTS"
    try:
        position = await writer.append(sale, producer=till, sequence=int(number))
    except SequenceTooOld as old:
        return f"{till} {number}: its last sale is {old.last_sequence}"
    await totals.through(position)
    return f"{till} {number} {position} {totals.cents[till]}"


async def serve(writer: LogWriter, totals: Totals) -> None:
    """Starts a task for each line of standard input, which must be a pipe or a terminal."""
    lines, room = asyncio.StreamReader(), asyncio.Semaphore(SALES_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)

    async def sell(line: str) -> None:
        print(await answer(writer, totals, line), flush=True)

    async with asyncio.TaskGroup() as selling:
        async for line in lines:
            await room.acquire()
            sale = selling.create_task(sell(line.decode(errors="replace")))
            sale.add_done_callback(lambda _: room.release())


async def main() -> None:
    async with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client, asyncio.TaskGroup() as group:
        log, totals = await client.log(sys.argv[1], create=True), Totals()
        async with await log.writer() as writer:
            following = group.create_task(totals.follow(log))
            await serve(writer, totals)
        following.cancel()


if __name__ == "__main__":
    why = None
    try:
        asyncio.run(main())
    except* LogFenced:
        why = "another process has taken over"
    sys.exit(why)
