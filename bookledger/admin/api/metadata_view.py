"""A read-only view of the cluster for daemons: read from the metadata, in bounded time and in pages.

Facts that require every ledger's record are counted in the background (`Census`), and no response waits long for them.
Everything else is read on request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from bookie.upkeep.healing.cluster_view import ClusterView, look
from bookie.upkeep.logs.log_sights import AskLag, lag_unknown
from bookledger.cluster.open_ledgers import Open
from metadata import keys, open_store
from metadata.backup.no_cluster import why_no_cluster
from metadata.errors import MetadataError
from metadata.records import ledger_codec, ledger_ids
from metadata.records.cluster import cluster_id
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.record_decoding import decode_or_skip
from metadata.store import MetadataStore, Versioned, list_some

from .census import Census

ANSWER_SECONDS_MAX = 5.0
"""Time limit for all reads for one response; when it is exceeded, the metadata counts as unavailable."""

VIEW_SECONDS = 1.0
"""How long one view of the live bookies is reused for further responses."""

LEDGERS_MAX = 500
"""Maximum number of ledgers on one page."""

KEYS_TRIED_MAX = 4
"""Maximum number of key pages that are read to fill one page of ledgers. A page of keys may yield fewer ledgers,
because deleted ledgers are skipped."""

LOST_AFTER_SECONDS = 600.0
"""The default time after which an absent bookie counts as lost."""


class Away(Exception):
    """The metadata is unavailable; the message states the reason."""


AskBookies = Callable[[Sequence[LedgerRecord]], Awaitable[Open]]


async def _ask_nobody(_: Sequence[LedgerRecord]) -> Open:
    return {}


class MetadataView:
    """A view of the cluster at one URI. Belongs to one event loop; use as `async with`. All methods raise Away."""

    def __init__(self, metadata_uri: str, *, lost_after_seconds: float = LOST_AFTER_SECONDS) -> None:
        self._uri = metadata_uri
        self.wait_ms = int(lost_after_seconds * 1000)
        self._store: MetadataStore | None = None
        self._opening = asyncio.Lock()
        self._view: ClusterView | None = None
        self._viewed = 0.0
        self.census = Census(self.wait_ms)
        self.ask_bookies: AskBookies = _ask_nobody
        self.ask_lag: AskLag = lag_unknown
        self.silent: Callable[[], Mapping[str, str] | None] = lambda: None
        """What is not in the metadata; whoever has a client for bookies sets all three. `silent`: why bookies do not
        answer, by name."""

    async def __aenter__(self) -> MetadataView:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.census.stop()
        if self._store is not None:
            await self._store.close()

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[MetadataStore]:
        """Yields the metadata store to the block, which may take at most ANSWER_SECONDS_MAX. Raises Away."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                async with self._opening:
                    if self._store is None:
                        self._store = await open_store(self._uri)
                yield self._store
        except TimeoutError as error:
            raise Away(f"the metadata store has not answered for {ANSWER_SECONDS_MAX:g} s") from error
        except MetadataError as error:
            raise Away(str(error)) from error

    async def name(self, store: MetadataStore) -> str:
        """Returns the cluster's id. Raises Away if there is no cluster."""
        name = await cluster_id(store)
        if name is None:
            raise Away(await why_no_cluster(store))
        return name

    async def view(self, store: MetadataStore) -> ClusterView:
        """Returns a view of the live bookies that is at most one second old."""
        if self._view is None or time.monotonic() - self._viewed > VIEW_SECONDS:
            self._view, self._viewed = await look(store, self.wait_ms), time.monotonic()
        return self._view


def key_before(prefix: str, name: str) -> str | None:
    """Returns a key that sorts after the keys of all smaller names and before that of this name. The key ends with `~`,
    which no name contains."""
    return f"{prefix}{name[:-1]}{chr(ord(name[-1]) - 1)}~" if keys.is_name(name) else None


async def ledgers_page(store: MetadataStore, first: int, limit: int) -> tuple[list[LedgerRecord], int | None]:
    """Returns up to `limit` ledgers from id `first` on, and the start of the next page. There may be fewer ledgers
    because deleted ones are skipped."""
    assert 1 <= limit <= LEDGERS_MAX
    found: list[LedgerRecord] = []
    after = keys.ledger(first - 1) if first else None
    for _ in range(KEYS_TRIED_MAX):
        page = await store.list_page(keys.LEDGERS, after=after, limit=limit)
        for record in _records(page.items):
            if len(found) == limit:
                return found, record.ledger_id
            found.append(record)
        if page.next_after is None:
            return found, None
        after = page.next_after
    return found, keys.ledger_id_of(after) + 1 if after else None


async def end_of_ledgers(store: MetadataStore) -> int:
    """Returns an id above those of all ledgers: the next id to be assigned, or the highest possible one if ledgers were
    created with explicit ids above that."""
    end = await ledger_ids.counted_end(store)
    above = await store.list_page(keys.LEDGERS, after=keys.ledger(end - 1) if end else None, limit=1)
    return keys.LEDGER_ID_MAX + 1 if above.items else end


async def newest_ledgers(
    store: MetadataStore, below: int, limit: int
) -> tuple[list[LedgerRecord], int | None]:
    """Returns up to `limit` ledgers with ids less than `below`, in descending order, and the value of `below` for the
    next page.

    A store lists keys only in ascending order, and ids may have wide gaps. So this function reads windows of ids, each
    four times as wide as the one before; a window that holds more than a page is halved.
    """
    found: list[LedgerRecord] = []
    width = limit
    while below > 0 and len(found) <= limit:
        lowest = max(0, below - width)
        after = keys.ledger(lowest - 1) if lowest else None
        page = await list_some(store, keys.LEDGERS, after=after, limit=2 * limit)
        end = keys.ledger(below - 1)
        in_window = [item for item in page.items if item.key <= end]
        if page.next_after is not None and page.next_after < end and width > limit:
            width = max(limit, width // 2)
            continue
        found += reversed(_records(in_window))
        below, width = lowest, 4 * width
    return found[:limit], found[limit - 1].ledger_id if len(found) > limit else None


def _records(items: Iterable[Versioned]) -> list[LedgerRecord]:
    found = (decode_or_skip(ledger_codec.decode, item.key, item.value) for item in items)
    return [record for record in found if isinstance(record, LedgerRecord)]


async def ledger(store: MetadataStore, ledger_id: int) -> LedgerRecord | None:
    """Returns one ledger's record; None if the ledger does not exist."""
    found = await LedgerStore(store).read(ledger_id)
    return None if found is None else found.record
