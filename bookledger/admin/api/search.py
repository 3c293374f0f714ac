"""Searches all ledgers by state and custom metadata, in bounded time: each response includes the id from which the next
search continues."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bookledger.cluster.custom_metadata_filter import CustomMetadataFilter
from metadata import keys
from metadata.records import ledger_codec
from metadata.records.ledger_record import LedgerRecord, LedgerState
from metadata.records.record_decoding import decode_or_skip
from metadata.store import PAGE_KEYS_MAX, MetadataStore

SEARCH_SECONDS_MAX = 2.0
"""Time limit of a search; when it is exceeded, the response contains the ledgers found so far."""

STATES = tuple(state.value for state in LedgerState)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The conditions of a search: a ledger's state, its custom metadata, and a bookie that stores its entries; each is
    optional."""

    state: LedgerState | None = None
    custom: CustomMetadataFilter | None = None
    bookie: str = ""

    @classmethod
    def of(cls, state: str, custom: str, bookie: str = "") -> Wanted:
        """Reads the parameters of a request; "" matches anything."""
        return cls(
            LedgerState(state) if state else None, CustomMetadataFilter.of(custom) if custom else None, bookie
        )

    @property
    def is_anything(self) -> bool:
        return self.state is None and self.custom is None and not self.bookie

    def is_in(self, key: str, value: bytes) -> LedgerRecord | None:
        """Returns the record encoded in `value` if it matches. Raises BadRecord."""
        if self.custom is not None and not self.custom.may_be_in(value):
            return None
        if self.bookie and self.bookie.encode() not in value:
            return None
        if self.state is not None and ledger_codec.state_of(value) is not self.state:
            return None
        record = ledger_codec.decode(key, value)
        if not isinstance(record, LedgerRecord) or not self._is_of(record):
            return None
        return record

    def _is_of(self, record: LedgerRecord) -> bool:
        has_custom = self.custom is None or self.custom.is_of(record)
        return has_custom and (not self.bookie or record.names_bookie(self.bookie))


async def search(
    store: MetadataStore, wanted: Wanted, first: int, limit: int
) -> tuple[list[LedgerRecord], int | None]:
    """Returns up to `limit` matching ledgers from id `first` on, and the id from which to continue; fewer, or none, if
    time ran out."""
    found: list[LedgerRecord] = []
    after = keys.ledger(first - 1) if first else None
    end = time.monotonic() + SEARCH_SECONDS_MAX
    while True:
        page = await store.list_page(keys.LEDGERS, after=after, limit=PAGE_KEYS_MAX)
        for item in page.items:
            record = decode_or_skip(wanted.is_in, item.key, item.value)
            if record is not None and len(found) == limit:
                return found, record.ledger_id
            if record is not None:
                found.append(record)
        if page.next_after is None:
            return found, None
        if time.monotonic() >= end:
            return found, keys.ledger_id_of(page.next_after) + 1
        after = page.next_after
