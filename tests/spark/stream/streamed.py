"""Ledgers made of records alone in a real metadata store, and a stream over them as Spark drives it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import count

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from metadata import open_store
from metadata.healing.collection_progress import retire
from metadata.records.ledger_ids import counted_end, take_ledger_ids
from metadata.records.ledger_record import SEGMENT, LedgerState, Tombstone
from metadata.records.ledger_store import LedgerStore
from spark.planning.options import LedgerOptions
from spark.stream.ledgers import ClosedLedgersStream
from tests.spark.made import closed
from tests.support.aio import run
from tests.support.ledgers import change, delete

SCHEMA = StructType().add("ledger_id", "long")

CHOSEN_BY_HAND = 1000
"""Ids from this one on; those below come from the cluster's counter."""

_stores = count()


class Records:
    """Records of ledgers in a store of their own, as writers make and close them."""

    def __init__(self) -> None:
        self.uri = f"memory://stream-{next(_stores)}"

    def make(
        self,
        *ledger_ids: int,
        open_now: bool = False,
        created_ms: int | None = None,
        of_log: bool = False,
        **custom: str,
    ) -> None:
        custom |= {SEGMENT: "of a log"} if of_log else {}
        run(self._make(ledger_ids, open_now, created_ms, custom))

    def count(self, ids: int) -> list[int]:
        """So many ids that the cluster's counter gives."""
        return run(self._count(ids))

    async def _count(self, ids: int) -> list[int]:
        store = await open_store(self.uri)
        return [(await take_ledger_ids(store, 1))[0] for _ in range(ids)]

    def close(self, ledger_id: int) -> None:
        run(self._close(ledger_id))

    def delete(self, ledger_id: int) -> None:
        run(self._delete(ledger_id))

    async def _make(
        self, ledger_ids: tuple[int, ...], open_now: bool, created_ms: int | None, custom: dict[str, str]
    ) -> None:
        whole = await open_store(self.uri)
        store = LedgerStore(whole)
        for ledger_id in ledger_ids:
            while await counted_end(whole) <= ledger_id < CHOSEN_BY_HAND:
                await take_ledger_ids(whole, 1)
            named = {name: value.encode() for name, value in custom.items()}
            record = replace(closed(ledger_id, 10, 1000, custom=named), created_ms=created_ms or now_ms())
            if open_now:
                record = replace(record, state=LedgerState.OPEN, last_entry=None, length_bytes=None)
            await store.create(record)

    async def _close(self, ledger_id: int) -> None:
        store = LedgerStore(await open_store(self.uri))
        await change(store, ledger_id, lambda record: record.closed(9, 1000))

    def retire(self, *ledger_ids: int) -> None:
        """Nothing is left of these, which were deleted."""
        run(self._retire(ledger_ids))

    async def _retire(self, ledger_ids: tuple[int, ...]) -> None:
        store = await open_store(self.uri)
        found = [one async for one in LedgerStore(store).look_up(sorted(ledger_ids))]
        assert all(isinstance(one, Tombstone) for one in found)
        await retire(store, {one.ledger_id: one.version for one in found})

    async def _delete(self, ledger_id: int) -> None:
        await delete(LedgerStore(await open_store(self.uri)), ledger_id)

    def stream(self, **options: str) -> Stream:
        return Stream(self.uri, options)


class Stream:
    """A stream as Spark drives it: offsets go through JSON, and it can be started again."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        self._options = {"metadata": uri, **options}
        self.restart()
        self.offset = self.reader.initialOffset()

    def restart(self, **options: str) -> None:
        """Starts it again, with further options for this time."""
        self.reader = ClosedLedgersStream(LedgerOptions.of(self._options | options), SCHEMA)

    def batch(self, limit: ReadLimit | None = None) -> list[int]:
        """The ledgers of the next batch."""
        end = self.reader.latestOffset(json.loads(json.dumps(self.offset)), limit or ReadAllAvailable())
        tasks = self.reader.partitions(self.offset, end)
        self.offset = end
        return [one.ledger_id for task in tasks for one in task.ranges]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
