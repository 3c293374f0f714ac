"""The metadata store, which outlives every bookie: looked at from outside, and with the faults of the plan."""

from __future__ import annotations

from metadata import keys
from metadata.errors import StoreUnavailable
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import ledger_codec
from metadata.records.ledger_record import LedgerRecord, Tombstone
from metadata.store import Page, Versioned

PAGE_KEYS = 2
"""Listings have several pages, and fail between them."""

TOMBSTONE = ledger_codec.encode_tombstone(b"deleted")


class Metadata:
    """Ledger records by id, changed at once from outside.

    `fails_after`: requests of the bookie until one fails. `lies`: ledgers that the next listing of a collection calls
    deleted; whoever lists for another purpose has nothing but the listing, and no rule says that it may be wrong.
    """

    def __init__(self) -> None:
        self.data = MemoryData()
        self.fails_after: int | None = None
        self.lies: set[int] = set()
        self.is_collecting = False
        self.has_failed = False
        self._hidden: dict[int, bytes] = {}
        self._decoded: dict[int, tuple[int, LedgerRecord | None]] = {}

    def record(self, ledger_id: int) -> LedgerRecord | None:
        """None for a ledger that is deleted, or that the store has never heard of."""
        key = keys.ledger(ledger_id)
        found = self.data.get(key, 0.0)
        if found is None:
            return None
        known = self._decoded.get(ledger_id)
        if known is None or known[0] != found.version:
            record = ledger_codec.decode(key, found.value)
            known = found.version, None if isinstance(record, Tombstone) else record
            self._decoded[ledger_id] = known
        return known[1]

    def put(self, record: LedgerRecord) -> None:
        self._put(record.ledger_id, ledger_codec.encode(record))

    def delete(self, ledger_id: int) -> None:
        self._put(ledger_id, TOMBSTONE)

    def unlist(self, ledger_id: int) -> None:
        """The store knows nothing of the ledger until `list_again`."""
        key = keys.ledger(ledger_id)
        found = self.data.get(key, 0.0)
        assert found is not None
        self._hidden[ledger_id] = found.value
        self.data.delete(key, found.version, 0.0)

    @property
    def is_complete(self) -> bool:
        """Whether the store knows all ledgers that there are."""
        return not self._hidden

    def list_again(self) -> None:
        for ledger_id, value in self._hidden.items():
            self._put(ledger_id, value)
        self._hidden.clear()

    def calm(self) -> None:
        """Every request is answered with the truth from here on."""
        self.fails_after = None
        self.lies.clear()
        self.list_again()

    def _put(self, ledger_id: int, value: bytes) -> None:
        key = keys.ledger(ledger_id)
        found = self.data.get(key, 0.0)
        if found is None:
            self.data.create(key, value, None, 0.0)
        else:
            self.data.replace(key, value, found.version, 0.0)

    def asked(self) -> None:
        """The bookie asks for something. Raises StoreUnavailable where the plan says so."""
        if self.fails_after is None:
            return
        self.fails_after -= 1
        if self.fails_after < 0:
            self.fails_after = None
            self.has_failed = True
            raise StoreUnavailable("the plan says so")

    def told(self, item: Versioned) -> Versioned:
        """What a listing says of a ledger."""
        ledger_id = keys.ledger_id_of(item.key) if item.key.startswith(keys.LEDGERS) else None
        if not self.is_collecting or ledger_id not in self.lies:
            return item
        self.lies.remove(ledger_id)
        return Versioned(item.key, TOMBSTONE, item.version)


class Store(MemoryStore):
    """What the bookie sees of it. Implements `metadata.store.MetadataStore`."""

    def __init__(self, metadata: Metadata) -> None:
        super().__init__(metadata.data)
        self._metadata = metadata

    async def get(self, key: str) -> Versioned | None:
        self._metadata.asked()
        return await super().get(key)

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS) -> Page:
        self._metadata.asked()
        page = await super().list_page(prefix, after=after, limit=PAGE_KEYS)
        return Page(tuple(map(self._metadata.told, page.items)), page.next_after, page.revision)
