"""Ingestion with asyncio: many producers, bounded memory, ledgers of a fixed size.

python examples/ingest.py PRODUCERS RECORDS    # each producer makes so many records of 1 kB
"""

import asyncio
import os
import sys
import time

from ledgers.aio import LedgerClient, WriteHandle

RECORD_BYTES = 1000
LEDGER_BYTES = 16 * 1024 * 1024
"""Where one ledger ends and the next begins."""


class Ingester:
    """Appends to one ledger until it is full, then to the next; `append` waits while too much is unconfirmed."""

    def __init__(self, client: LedgerClient) -> None:
        self._client = client
        self._writer: WriteHandle | None = None
        self._bytes = 0
        self._rolling = asyncio.Lock()
        self.ledgers: list[int] = []

    async def append(self, record: bytes) -> asyncio.Future[int]:
        async with self._rolling:
            if self._writer is None or self._bytes + len(record) > LEDGER_BYTES:
                await self._roll()
            assert self._writer is not None
            self._bytes += len(record)
            return await self._writer.append_async(record)  # waits for room: that is the back-pressure

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()

    async def _roll(self) -> None:
        await self.close()
        self._writer, self._bytes = await self._client.create_ledger(custom_metadata={"kind": b"ingested"}), 0
        self.ledgers.append(self._writer.ledger_id)


async def produce(ingester: Ingester, name: int, records: int) -> None:
    """Has everything of its own confirmed when it returns; raises if something is not."""
    confirmed = None
    for number in range(records):
        confirmed = await ingester.append(b"%d:%d " % (name, number) + bytes(RECORD_BYTES))
    if confirmed is not None:
        await confirmed  # entries are confirmed in order: the last one says it of all


async def main() -> None:
    producers, records = map(int, sys.argv[1:])
    began = time.monotonic()
    async with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        ingester = Ingester(client)
        async with asyncio.TaskGroup() as group:
            for name in range(producers):
                group.create_task(produce(ingester, name, records))
        await ingester.close()
    seconds = time.monotonic() - began
    megabytes = producers * records * RECORD_BYTES / 1e6
    print(f"{producers * records} records in {len(ingester.ledgers)} ledgers, {megabytes / seconds:.0f} MB/s")


if __name__ == "__main__":
    asyncio.run(main())
