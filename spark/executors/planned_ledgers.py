"""Opens the ledgers of a planned job on executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from ledgers import LedgerError, MetadataUnavailable, NoSuchLedger, Unauthorized
from ledgers.aio import LedgerClient, ReadHandle

AWAY_SECONDS_MAX = 30.0
"""Maximum time for which a task retries an unavailable metadata store. The task itself must retry, because a local
session tries each task only once."""


async def open_closed(client: LedgerClient, ledger_id: int, password: bytes) -> ReadHandle:
    """Opens a closed ledger, like `open_planned`. Raises LedgerError if the ledger is not closed."""
    reader = await open_planned(client, ledger_id, password)
    if not reader.is_closed:
        raise LedgerError(f"ledger {ledger_id} is no longer closed: its metadata was changed by hand")
    return reader


async def open_planned(client: LedgerClient, ledger_id: int, password: bytes) -> ReadHandle:
    """Opens a ledger without fencing it. The password is used only for ledgers that have one.

    Raises LedgerError if the ledger was deleted after the job was planned, Unauthorized, or MetadataUnavailable after
    AWAY_SECONDS_MAX without an answer.
    """
    asking = AsyncRetrying(
        retry=retry_if_exception_type(MetadataUnavailable),
        stop=stop_after_delay(AWAY_SECONDS_MAX),
        wait=wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )
    with planned(ledger_id):
        reader: ReadHandle = await asking(_open, client, ledger_id, password)
        return reader


@contextmanager
def planned(ledger_id: int) -> Iterator[None]:
    """Replaces NoSuchLedger with a LedgerError stating that the ledger was deleted after the job was planned."""
    try:
        yield
    except NoSuchLedger as gone:
        raise LedgerError(f"ledger {ledger_id} was deleted after this job was planned") from gone


async def _open(client: LedgerClient, ledger_id: int, password: bytes) -> ReadHandle:
    try:
        return await client.open_ledger(ledger_id, recovery=False, password=password)
    except Unauthorized:
        if not password:
            raise
    try:
        return await client.open_ledger(ledger_id, recovery=False)
    except Unauthorized:  # the ledger has a different password: raise the first error again
        return await client.open_ledger(ledger_id, recovery=False, password=password)
