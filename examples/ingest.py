"""Ingestion with asyncio: many producers, one bounded writer, segments of a fixed size.

python examples/ingest.py LOG PRODUCERS RECORDS    # each producer makes so many records of 1 kB
"""

import asyncio
import os
import sys
import time

from ledgers.aio import LedgerClient, LogWriter

RECORD_BYTES = 1000
SEGMENT_BYTES = 16 * 1024 * 1024
"""Where one ledger of the log ends and the next begins; appends go on meanwhile."""


async def produce(writer: LogWriter, name: int, records: int) -> None:
    """Has everything of its own confirmed when it returns; raises if something is not."""
    confirmed = None
    for number in range(records):
        record = b"%d:%d " % (name, number) + bytes(RECORD_BYTES)
        confirmed = await writer.append_async(record)  # waits for room: that is the back-pressure
    if confirmed is not None:
        await confirmed  # records are confirmed in order: the last one says it of all


async def main() -> None:
    log_name, producers, records = sys.argv[1], *map(int, sys.argv[2:])
    began = time.monotonic()
    async with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        log = await client.create_log(log_name, roll_bytes=SEGMENT_BYTES)
        async with await log.writer() as writer, asyncio.TaskGroup() as group:
            for name in range(producers):
                group.create_task(produce(writer, name, records))
        ledgers = len([segment async for segment in log.segments()])
    seconds = time.monotonic() - began
    megabytes = producers * records * RECORD_BYTES / 1e6
    print(f"{producers * records} records in {ledgers} ledgers, {megabytes / seconds:.0f} MB/s")


if __name__ == "__main__":
    asyncio.run(main())
