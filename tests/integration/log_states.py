"""What a log holds, and what of it is gone."""

from __future__ import annotations

from ledgers import NoSuchLedger
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log


async def payloads(log: Log, start: int | None = None) -> list[bytes]:
    return [record.payload async for record in log.read(start)]


async def positions(log: Log, start: int | None = None) -> list[int]:
    return [record.position async for record in log.read(start)]


async def gone(client: LedgerClient, ledger_id: int) -> bool:
    try:
        await client.describe_ledger(ledger_id)
    except NoSuchLedger:
        return True
    return False


async def is_clean(log: Log, position: int) -> bool:
    pages = [page async for page in log._chain.logs.pages(log.record.identity)]
    return not pages and (await log.refresh()).paged_through >= position
