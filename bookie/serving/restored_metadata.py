"""What a bookie does when it starts on an older copy of the metadata, restored from a backup.

The counter of ledger ids has gone back with it. An id that it gives twice would make a new ledger of which bookies hold
entries already, those of the old one; its readers could be shown them. And what the copy says of older ledgers may have
changed since: it holds back until an operator has looked (`metadata/backup/hold.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from metadata import keys
from metadata.backup import hold
from metadata.records import ledger_ids
from metadata.store import MetadataStore

log = logging.getLogger(__name__)

COUNTED_MAX = 2**62
"""No counter comes so far; ids from there on were chosen by hand."""


async def give_no_id_twice(store: MetadataStore, held: Sequence[int]) -> None:
    """Moves the counter past every ledger that the bookie holds and the metadata has never heard of.

    `held`: the ids of the bookie's ledgers, ascending.
    """
    end = await ledger_ids.counted_end(store)
    for ledger_id in reversed(held):
        if ledger_id < end:
            return
        if ledger_id < COUNTED_MAX and await store.get(keys.ledger(ledger_id)) is None:
            log.warning(
                "this bookie holds ledger %d, which the metadata has never heard of: an older copy of it was "
                "restored; new ledgers get ids from %d on, so that none is given twice, and nothing is recovered or "
                "collected until it is accepted: bookledger metadata check",
                ledger_id,
                ledger_id + 1,
            )
            await hold.begin(store, backup_ms=0, now_ms=time.time_ns() // 1_000_000)
            await ledger_ids.count_beyond(store, ledger_id)
            return
