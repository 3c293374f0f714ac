"""Asks bookies about ledgers that are not closed: the last confirmed entry, the size, and the writer's address.

This does not disturb writers, and takes one request to each bookie of a ledger's last ensemble.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ledgers.aio import LedgerClient
from ledgers.errors import LedgerError
from metadata.records.ledger_record import LedgerRecord

ASK_SECONDS_MAX = 2.0
"""Time limit for asking the bookies of all ledgers in one list. They may be unavailable, and a user is waiting."""

ASKED_AT_ONCE_MAX = 64
"""Maximum number of ledgers of one list whose bookies are asked concurrently."""


@dataclass(frozen=True, slots=True)
class AtBookies:
    """The last confirmed entry (-1 before the first), the bytes up to and including it, and the host and port of the
    writer; None for unknown values. `why_unknown`: the reason if all values are unknown."""

    last_add_confirmed: int | None = None
    confirmed_bytes: int | None = None
    writer_address: str | None = None
    why_unknown: str = ""


UNKNOWN = "unknown"

NOT_ASKED = AtBookies(why_unknown="its bookies were not asked")

Open = dict[int, AtBookies]
"""The answers for ledgers that are not closed, by ledger id."""


async def ask_bookies(client: LedgerClient, records: Iterable[LedgerRecord]) -> Open:
    """Asks bookies about the ledgers in `records` that are not closed; returns the answers that arrive within
    ASK_SECONDS_MAX."""
    wanted = [record for record in records if not record.is_closed]
    slots = asyncio.Semaphore(ASKED_AT_ONCE_MAX)
    end = asyncio.get_running_loop().time() + ASK_SECONDS_MAX
    answers = await asyncio.gather(*(_ask(client, record, slots, end) for record in wanted))
    return {record.ledger_id: answer for record, answer in zip(wanted, answers, strict=True)}


async def _ask(client: LedgerClient, record: LedgerRecord, slots: asyncio.Semaphore, end: float) -> AtBookies:
    if record.verifier:
        return AtBookies(why_unknown="the ledger has a password, which is unknown here")
    try:
        async with asyncio.timeout_at(end), slots:
            reader = await client.open_ledger(record.ledger_id, recovery=False)
    except TimeoutError:
        return AtBookies(why_unknown=f"the bookies have not answered for {ASK_SECONDS_MAX:g} s")
    except LedgerError as error:
        return AtBookies(why_unknown=str(error))
    return AtBookies(reader.last_add_confirmed, reader.length_bytes, reader.writer_address)


def confirmed_fields(record: LedgerRecord, seen: Open) -> dict[str, Any]:
    """Returns what bookies report about a ledger, as JSON; for a closed ledger, its end and no writer."""
    found = _seen(record, seen)
    return {
        "last_add_confirmed": found.last_add_confirmed,
        "confirmed_bytes": found.confirmed_bytes,
        "writer_address": found.writer_address,
    }


def why_unknown(record: LedgerRecord, seen: Open) -> dict[str, str]:
    """Returns, as JSON, why the values of a ledger are unknown; empty if they are known."""
    why = _seen(record, seen).why_unknown
    return {"why_unknown": why} if why else {}


def _seen(record: LedgerRecord, seen: Open) -> AtBookies:
    if record.is_closed:
        return AtBookies(record.last_entry, record.length_bytes)
    return seen.get(record.ledger_id, NOT_ASKED)
