"""A bookie's access to its peers, for repair and re-replication, with a client's reads and recovery.

`bookie` never imports this package: it takes whatever implements its own interface, `bookie.upkeep.peers.Peers`, from
the program that starts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from bookie.wire import Columns
from bookie.wire.credentials import BookieKey
from bookie.wire.errors import PeersFailed
from metadata import open_store
from metadata.errors import MetadataError
from metadata.records.ledger_record import BookieRef, DigestType, LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.store import MetadataStore

from ..bookie_client import BookieClient
from ..bookies.connected_bookies import ConnectedBookies
from ..cluster import Cluster
from ..config import ClientConfig
from ..errors import (
    BookieUnavailable,
    ClientClosed,
    EntryUnreadable,
    LedgerError,
    LedgerRecoveryFailed,
    MetadataUnavailable,
    NoSuchLedger,
)
from ..integrity.digest import Digester, HmacDigester, digester
from ..integrity.ledger_keys import LedgerKey
from ..loop_thread import PageSource
from ..reading.ledger_view import LedgerView
from ..reading.page_fetch import PageFetcher
from ..reading.range_read import RangeRead
from ..tasks import end_tasks
from .recover import recover

T = TypeVar("T")

READ_AHEAD_PAGES = 1
"""Pages fetched while one is worked on: mending is never in a hurry, and the bookies serve clients too."""

PATIENCE_SECONDS_MIN = 2.0
"""A bookie is silent for so long at least before another is burdened with the same page."""

REACHED_SECONDS_MAX = 5.0
"""How long a bookie has to answer that it can be reached."""

ANY_VERSION = 0
"""Of a record that somebody else read: whatever is read later is newer."""


class ClusterPeers:
    """The other bookies of a cluster, as `bookie.upkeep.peers.Peers` describes them.

    `metadata` is a URI, opened by the first call and closed by `close`, or a store, which stays its owner's.
    Connects to nobody before the first call. `key` is the bookie's, for ledgers with a password. `bookies` makes the
    calls to bookies.
    """

    def __init__(
        self,
        metadata: str | MetadataStore,
        config: ClientConfig | None = None,
        *,
        key: BookieKey | None = None,
        bookies: Callable[[MetadataStore, ClientConfig], BookieClient] = ConnectedBookies,
    ) -> None:
        self._metadata = metadata
        self._key = key
        self._config = _gentle(config or ClientConfig())
        self._bookies = bookies
        self._cluster: Cluster | None = None
        self._connecting = asyncio.Lock()
        self._is_closed = False
        self._running: set[asyncio.Task[Any]] = set()
        self._sources: set[PageSource[Columns]] = set()

    async def entries(
        self, record: LedgerRecord, first_entry: int, last_entry: int, *, without: BookieRef
    ) -> AsyncGenerator[Columns, None]:
        """The entries from every replica but `without`; see `bookie.upkeep.peers.Peers.entries`.

        Reads ahead by `READ_AHEAD_PAGES`. Use with `aclosing` where it may be left half-way.
        """
        _check_range(record, first_entry, last_entry)
        source = PageSource(self._pages(record, first_entry, last_entry, without))
        self._sources.add(source)
        try:
            while (page := await self._until_closed(record.ledger_id, source.next())) is not None:
                yield page
        finally:
            self._sources.discard(source)
            await source.end()

    async def recover(self, ledger_id: int) -> LedgerRecord | None:
        """The ledger's closed record, None where it is deleted; see `bookie.upkeep.peers.Peers.recover`."""
        return await self._until_closed(ledger_id, self._recovered(ledger_id))

    async def why_unreachable(self, bookie: BookieRef) -> str:
        """Why the bookie does not answer; see `bookie.upkeep.peers.Peers.why_unreachable`."""
        try:
            async with asyncio.timeout(REACHED_SECONDS_MAX):
                await (await self._connected()).bookies.info(bookie)
        except TimeoutError:
            return f"no answer within {REACHED_SECONDS_MAX:g} s"
        except BookieUnavailable as error:
            return error.why
        except LedgerError as error:
            return str(error)
        return ""

    async def close(self) -> None:
        """Ends everything that runs, all connections, and the store where it was opened here."""
        self._is_closed = True
        await end_tasks(list(self._running))
        for source in list(self._sources):
            await source.end()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.is_closed = True
            await cluster.bookies.close()
            if cluster.store is not self._metadata:
                await cluster.store.close()

    # ------------------------------------------------------------------------------------------

    async def _until_closed(self, ledger_id: int, work: Coroutine[Any, Any, T]) -> T:
        """Runs a piece of work that `close` can end. The one place where a client's errors become a bookie's."""
        if self._is_closed:
            work.close()
            raise _failure(ledger_id, ClientClosed())
        task = asyncio.create_task(work)
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if not self._is_closed or (me is not None and me.cancelling()):
                raise
            raise _failure(ledger_id, ClientClosed()) from None
        except (LedgerError, MetadataError) as error:
            raise _failure(ledger_id, error) from error
        finally:
            self._running.discard(task)

    async def _connected(self) -> Cluster:
        async with self._connecting:
            if self._is_closed:
                raise ClientClosed
            if self._cluster is None:
                store = (
                    await open_store(self._metadata) if isinstance(self._metadata, str) else self._metadata
                )
                bookies = self._bookies(store, self._config)
                self._cluster = Cluster(store, LedgerStore(store), bookies, self._config)
            return self._cluster

    async def _pages(
        self, record: LedgerRecord, first_entry: int, last_entry: int, without: BookieRef
    ) -> AsyncGenerator[Columns, None]:
        found = VersionedRecord(record, ANY_VERSION)
        key = self._key
        prove = None if key is None else partial(key.credential, record.ledger_id)
        view = LedgerView(await self._connected(), found, _keyless_digester(record), prove)
        whole = RangeRead(view, PageFetcher(view, without=without))
        async with aclosing(whole.columns(first_entry, last_entry)) as pages:
            async for page in pages:
                yield page

    async def _recovered(self, ledger_id: int) -> LedgerRecord | None:
        cluster = await self._connected()
        found = await cluster.ledgers.read(ledger_id)
        if found is None or found.record.is_closed:
            return None if found is None else found.record
        if found.record.verifier:
            raise _needs_password(ledger_id)
        checker = digester(found.record.digest_type, ledger_id, b"")
        try:
            return (await recover(cluster, found, checker, LedgerKey(ledger_id, b""))).record
        except NoSuchLedger:
            return None  # deleted meanwhile


class _KeylessHmac(HmacDigester):
    """Lets every digest of the right width pass: the ledger's key is not known here."""

    def bad_entries(self, _: Columns) -> list[int]:
        return []


def _keyless_digester(record: LedgerRecord) -> Digester:
    if record.digest_type is DigestType.HMAC_SHA256:
        return _KeylessHmac(record.ledger_id, b"")
    return digester(record.digest_type, record.ledger_id, b"")


def _gentle(config: ClientConfig) -> ClientConfig:
    """Settings for one who reads in the background."""
    patience = config.speculative_read_seconds and max(config.speculative_read_seconds, PATIENCE_SECONDS_MIN)
    return replace(config, read_ahead_pages=READ_AHEAD_PAGES, speculative_read_seconds=patience)


def _check_range(record: LedgerRecord, first_entry: int, last_entry: int) -> None:
    if record.last_entry is None:
        raise ValueError(f"ledger {record.ledger_id} is not closed: recover it first")
    if not 0 <= first_entry <= last_entry + 1 <= record.last_entry + 1:
        raise ValueError(
            f"entries {first_entry} to {last_entry} are not all in ledger {record.ledger_id}, "
            f"which ends at entry {record.last_entry}"
        )


def _needs_password(ledger_id: int) -> PeersFailed:
    return PeersFailed(
        ledger_id,
        f"ledger {ledger_id} is not closed, and has a password: nobody but its owner can recover it",
        "have its owner close it, or recover it with `bookledger ledger recover --password-file FILE "
        f"{ledger_id}`, or delete it; then try again",
    )


def _failure(ledger_id: int, error: LedgerError | MetadataError) -> PeersFailed:
    match error:
        case EntryUnreadable(entry_id=entry_id, answers=answers):
            whose = "no other replica gave" if answers else "no other bookie was to keep"
            return PeersFailed(
                ledger_id,
                f"{whose} entry {entry_id} of ledger {ledger_id}",
                "bring back those of them that are only away, and try again; an entry that every replica lacks or has "
                f"damaged is lost, and `bookledger ledger salvage {ledger_id} --output FILE` saves the others",
                entry_id=entry_id,
                answers=answers,
            )
        case ClientClosed():
            what, advice = f"asking others about ledger {ledger_id} was ended by closing", "start anew"
        case NoSuchLedger():
            what, advice = f"ledger {ledger_id} was deleted meanwhile", "nothing of it need be mended"
        case MetadataError() | MetadataUnavailable():
            what, advice = (
                f"cannot look up ledger {ledger_id}: {error}",
                "try again when the metadata is back",
            )
        case LedgerRecoveryFailed(is_undecided=True):
            away = "bring back those of these bookies that are only away, and try again"
            lost = f"where they are lost for good: `bookledger ledger recover --accept-loss {ledger_id}`"
            what, advice = str(error), f"{away}; {lost}"
        case _:
            what, advice = str(error), "bring back the bookies that it names, and try again"
    return PeersFailed(ledger_id, what, advice)
