"""Reads the records of the ledgers that a job reads."""

from __future__ import annotations

from collections.abc import Collection

from ledgers import LedgerRecord, MetadataUnavailable
from metadata import opened_store
from metadata.backup import hold
from metadata.errors import MetadataRestored
from metadata.records.ledger_record import Tombstone
from metadata.records.ledger_store import LedgerStore
from metadata.records.record_decoding import refuse
from metadata.store import MetadataStore


async def records_of(uri: str, ledger_ids: Collection[int]) -> dict[int, LedgerRecord]:
    """Returns the records of these ledgers, without those that do not exist.

    Raises MetadataUnavailable if one is missing and the metadata is an older copy that may lack it.
    """
    if not ledger_ids:
        return {}
    async with opened_store(uri) as store:
        look_up = LedgerStore(store).look_up(sorted(ledger_ids), on_unreadable=refuse)
        found = {one.ledger_id: one.record async for one in look_up if not isinstance(one, Tombstone)}
        if missing := set(ledger_ids) - found.keys():
            await _check_is_known(store, min(missing))
        return found


async def _check_is_known(store: MetadataStore, ledger_id: int) -> None:
    try:
        await hold.check_accepted(store)
    except MetadataRestored as error:
        raise MetadataUnavailable(f"it is unknown whether ledger {ledger_id} exists: {error}") from error
