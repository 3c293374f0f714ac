"""Reads a page of a ledger's entries from its bookies, if the operator has enabled that."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ledgers.aio import LedgerClient
from ledgers.errors import LedgerError

ENTRIES_A_PAGE = 50

READ_SECONDS_MAX = 10.0
"""How long a page may take: bookies may be away, and somebody waits before a browser."""

BYTES_SHOWN_MAX = 512
"""Bytes shown of a payload; the rest is only counted."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry as shown. `text` has replacement characters for invalid UTF-8."""

    entry_id: int
    size_bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class EntriesPage:
    """`problem`: why there are no entries, if so. `last`: the last confirmed one."""

    entries: tuple[Shown, ...] = ()
    last: int = -1
    problem: str = ""


async def read(client: LedgerClient, has_password: bool, ledger_id: int, first: int) -> EntriesPage:
    """Reads without disturbing a writer. Errors become part of the page."""
    if has_password:
        return EntriesPage(problem="the ledger has a password, which this console does not know")
    try:
        async with asyncio.timeout(READ_SECONDS_MAX):
            reader = await client.open_ledger(ledger_id, recovery=False)
            last = reader.last_add_confirmed
            if first > last:
                return EntriesPage(last=last)
            found = [one async for one in reader.read(first, min(last, first + ENTRIES_A_PAGE - 1))]
    except TimeoutError:
        return EntriesPage(problem=f"the bookies have not answered for {READ_SECONDS_MAX:g} s")
    except LedgerError as error:
        return EntriesPage(problem=str(error))
    return EntriesPage(tuple(_shown(one.entry_id, one.payload) for one in found), last)


def _shown(entry_id: int, payload: bytes) -> Shown:
    return Shown(entry_id, len(payload), payload[:BYTES_SHOWN_MAX].decode(errors="replace"))
