"""Prevents a ledger's id from being used again if a bookie holds the ledger but the metadata lacks it.

Such ids exist if the metadata was restored from an older copy, and with it the counter of ledger ids. If an id were
used again, bookies would already hold entries of the old ledger under the new ledger's id. The records of older ledgers
in the copy may be outdated, too. So the metadata is on hold until an operator has checked it
(`metadata/backup/hold.py`).
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import aclosing

from metadata import keys
from metadata.backup import hold
from metadata.backup.hold import Noticed
from metadata.records import ledger_ids
from metadata.store import MetadataStore, list_all

log = logging.getLogger(__name__)

ASKED_MAX = 100
"""Maximum number of ids that are looked up one by one, the highest first; lower ids are checked by a listing."""

COUNTED_MAX = 2**62
"""The counter assigns only ids below this number; ids from this number on are chosen by callers."""


async def give_no_id_twice(store: MetadataStore, bookie_id: str, held: Sequence[int]) -> None:
    """Moves the id counter past every ledger that the bookie holds and that has no key in the metadata.

    `bookie_id`: the bookie that sets the hold, if one is needed. `held`: the ids of the bookie's ledgers, ascending.
    """
    end = await ledger_ids.counted_end(store)
    beyond = held[bisect_left(held, end) : bisect_left(held, COUNTED_MAX)]
    ledger_id = await _highest_unheard_of(store, beyond)
    if ledger_id is None:
        return
    log.warning(
        "this bookie holds ledger %d, which is missing from the metadata, because an older copy was "
        "restored; new ledgers get ids from %d on, so that no id is used twice, and nothing is recovered or "
        "collected until the metadata is accepted; run: bookledger metadata check",
        ledger_id,
        ledger_id + 1,
        extra={"ledger": ledger_id},
    )
    noticed = Noticed(bookie_id, "the end of the used ledger ids", end, ledger_id + 1)
    await hold.begin(store, backup_ms=0, now_ms=time.time_ns() // 1_000_000, noticed=noticed)
    await ledger_ids.count_beyond(store, ledger_id)


async def _highest_unheard_of(store: MetadataStore, held: Sequence[int]) -> int | None:
    """Returns the highest of these ledgers, given in ascending order, without a key in the metadata; None if all have
    one."""
    for ledger_id in reversed(held[-ASKED_MAX:]):
        if await store.get(keys.ledger(ledger_id)) is None:
            return ledger_id
    return await _highest_not_listed(store, held[:-ASKED_MAX]) if len(held) > ASKED_MAX else None


async def _highest_not_listed(store: MetadataStore, held: Sequence[int]) -> int | None:
    """Returns the highest of these ledgers without a key. Uses one listing, because looking up a million ids that
    applications chose would take minutes."""
    highest, at = None, 0
    before = keys.ledger(held[0] - 1) if held[0] else None
    async with aclosing(list_all(store, keys.LEDGERS, after=before)) as listed:
        async for found in listed:
            while at < len(held) and keys.ledger(held[at]) < found.key:
                highest, at = held[at], at + 1
            if at == len(held):
                return highest
            at += keys.ledger(held[at]) == found.key
    return held[-1] if at < len(held) else highest
