"""Applications that write, die, take over and read while everything fails around them."""

from __future__ import annotations

import asyncio
from random import Random

from ledgers import LedgerError, NoSuchLedger
from ledgers.aio import LedgerClient, WriteHandle
from metadata.errors import MetadataError

from .history import IMPATIENT, History, payload

ENTRIES_MAX = 3000
IN_FLIGHT_MAX = 300
PAUSE_SECONDS = 0.2

LEDGERS_KEPT_MAX = 800
"""Older ones are deleted, so that a long run fits on a disk."""


async def write_for_ever(uri: str, history: History, random: Random) -> None:
    """One ledger after the other; some are closed, some left open as by a crash."""
    async with LedgerClient(uri, config=IMPATIENT) as client:
        while True:
            try:
                writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
                await _fill(writer, history, random)
            except (LedgerError, MetadataError) as error:
                history.errors[type(error).__name__] += 1
                await asyncio.sleep(PAUSE_SECONDS)


async def _fill(writer: WriteHandle, history: History, random: Random) -> None:
    history.confirmed.setdefault(writer.ledger_id, -1)
    window = asyncio.Semaphore(random.randint(1, IN_FLIGHT_MAX))

    def answered(future: asyncio.Future[int]) -> None:
        window.release()
        if not future.cancelled() and future.exception() is None:
            history.is_confirmed(writer.ledger_id, future.result())

    for entry_id in range(random.randint(1, ENTRIES_MAX)):
        await window.acquire()
        future = await writer.append_async(payload(writer.ledger_id, entry_id))
        future.add_done_callback(answered)
    if random.random() < 0.7:
        await writer.close()
        history.has_ended(writer.record)
    else:
        await writer.abandon()


async def take_over_for_ever(uri: str, history: History, random: Random) -> None:
    """Recovers some ledger, as often as not of a writer that lives, and reads all of it."""
    async with LedgerClient(uri, config=IMPATIENT) as client:
        while True:
            await asyncio.sleep(random.uniform(0, 2))
            if not history.confirmed:
                continue
            try:
                await history.read_all(client, random.choice(sorted(history.confirmed)))
            except (LedgerError, MetadataError) as error:
                history.errors[type(error).__name__] += 1


async def tidy_for_ever(uri: str, history: History) -> None:
    """Reads the oldest ledger once more and deletes it, where there are many."""
    async with LedgerClient(uri, config=IMPATIENT) as client:
        while True:
            if len(history.confirmed) <= LEDGERS_KEPT_MAX:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            oldest = min(history.confirmed)
            try:
                await history.read_all(client, oldest)
            except (LedgerError, MetadataError) as error:
                history.errors[type(error).__name__] += 1
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                await _delete(client, history, oldest)


async def _delete(client: LedgerClient, history: History, ledger_id: int) -> None:
    """Whoever reads it from now on may find nothing; where it stays, it counts again."""
    confirmed = history.confirmed[ledger_id]
    history.is_deleted(ledger_id)
    try:
        await client.delete_ledger(ledger_id)
    except NoSuchLedger:  # an earlier try, whose answer was lost
        return
    except (LedgerError, MetadataError) as error:
        history.errors[type(error).__name__] += 1
        history.is_kept(ledger_id, confirmed)
