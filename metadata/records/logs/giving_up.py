"""Deletes what a log has given up: ledgers first, then what names them.

Whoever is interrupted leaves the names, and the next one deletes the same ledgers again.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol

from .log_record import LogRecord, Segment
from .log_store import LogStore
from .producer_record import ProducerStore

Delete = Callable[[int], Awaitable[object]]
"""Deletes a ledger for good. One that is gone already is no error."""


class Chain(Protocol):
    """A log's record, changed by compare-and-swap: a transition is applied to what stands."""

    @property
    def logs(self) -> LogStore: ...

    @property
    def record(self) -> LogRecord: ...

    async def refresh(self) -> LogRecord:
        """Reads the record again."""
        ...

    async def change(self, transition: Callable[[LogRecord], LogRecord]) -> LogRecord: ...


class Cleaner:
    """One clean-up of one log, of at most so many ledgers."""

    def __init__(self, chain: Chain, delete: Delete, ledgers_max: int = sys.maxsize) -> None:
        self._chain = chain
        self._delete = delete
        self._left = ledgers_max

    async def clean(self) -> bool:
        """Deletes the ledgers in which nothing is left; whether all of them. False also where a legal hold stands."""
        record = await self._chain.refresh()
        await self._drop_snapshots(record)
        if not await self._clean_pages(record.first_position):
            return False
        while (record := await self._chain.change(_without_dead)).obsolete:
            if not await self._delete_all(record.obsolete):
                return False
            await self._chain.change(partial(LogRecord.without_obsolete, ledgers=record.obsolete))
        return True

    async def _drop_snapshots(self, record: LogRecord) -> None:
        """What was known of producers before the last segment began is of use to nobody."""
        if record.producers_from is not None:
            begins = record.paged_through if record.last is None else record.last.first_position
            await ProducerStore(self._chain.logs.store, record.identity).drop_before(begins)

    async def _clean_pages(self, first_position: int) -> bool:
        """Pages in which nothing is left go with their ledgers; of one in which something is, only ledgers go."""
        logs, identity = self._chain.logs, self._chain.record.identity
        async for page in logs.pages(identity):
            dead = [s for s in page.segments if _is_before(s, first_position)]
            if not await self._delete_all(s.ledger_id for s in dead):
                return False
            if len(dead) < len(page.segments):
                break
            await logs.drop_page(identity, page)
        return True

    async def _delete_all(self, ledger_ids: Iterable[int]) -> bool:
        """Deletes ledgers, unless a hold has begun, or it were too many."""
        for ledger_id in ledger_ids:
            if self._left == 0 or (await self._chain.refresh()).legal_hold:
                return False
            self._left -= 1
            await self._delete(ledger_id)
        return True


def _without_dead(record: LogRecord) -> LogRecord:
    """What a truncation found no room for is given up now."""
    return record if record.legal_hold else record.truncated(record.first_position)


def _is_before(segment: Segment, position: int) -> bool:
    return segment.end_position is not None and segment.end_position <= position
