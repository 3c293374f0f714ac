"""Gives a bookie access to its peers, for repair and re-replication, using a client's reads and recovery.

`bookie` never imports this package: the program that starts the bookie passes an implementation of
`bookie.upkeep.repair_client.Peers`, an interface that the bookie defines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial

from bookie.wire import Columns
from bookie.wire.credentials import BookieKey
from bookie.wire.errors import PeersFailed
from metadata.errors import MetadataError
from metadata.records.ledger_record import BookieRef, DigestType, LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.store import MetadataStore
from metadata.version import NO_VERSION

from ..bookie_client import BookieClient
from ..bookies.connected_bookies import ConnectedBookies
from ..cluster import Cluster
from ..config import ClientConfig
from ..errors import (
    BookieUnavailable,
    EntryUnreadable,
    LedgerError,
    LedgerRecoveryFailed,
    MetadataUnavailable,
    NoSuchLedger,
)
from ..integrity.digest import Digester, HmacDigester, digester
from ..integrity.ledger_keys import LedgerKey
from ..reading.ledger_view import LedgerView
from ..reading.page_fetch import PageFetcher
from ..reading.range_read import RangeRead
from .recovery_run import recover

READ_AHEAD_PAGES = 1
"""Number of pages fetched while another is being processed: repair is not urgent, and the bookies serve clients too."""

PATIENCE_SECONDS_MIN = 2.0
"""Minimum time for which a bookie must be silent before another is asked for the same page."""

REACHED_SECONDS_MAX = 5.0
"""Time limit for an answer that shows that a bookie can be reached."""

ANY_VERSION = NO_VERSION
"""Stands for the unknown version of a record that another program read; every version read later is newer than this."""


class ClusterPeers:
    """The other bookies of a cluster, as `bookie.upkeep.repair_client.Peers` describes them.

    The caller keeps ownership of the store. No connection is made before the first call. `key` is the bookie's own key,
    for ledgers with a password. `bookies` creates the client that makes the calls to bookies.
    """

    def __init__(
        self,
        store: MetadataStore,
        config: ClientConfig | None = None,
        *,
        key: BookieKey | None = None,
        bookies: Callable[[MetadataStore, ClientConfig], BookieClient] = ConnectedBookies,
    ) -> None:
        self._key = key
        gentle = _gentle(config or ClientConfig())
        self._cluster = Cluster(store, LedgerStore(store), bookies(store, gentle), gentle)

    async def entries(
        self, record: LedgerRecord, first_entry: int, last_entry: int, *, without: BookieRef
    ) -> AsyncGenerator[Columns, None]:
        """Yields the entries from every replica except `without`; see `bookie.upkeep.repair_client.Peers.entries`.

        Reads ahead by `READ_AHEAD_PAGES`. Use with `aclosing` if iteration may stop half-way.
        """
        _check_range(record, first_entry, last_entry)
        key, found = self._key, VersionedRecord(record, ANY_VERSION)
        prove = None if key is None else partial(key.credential, record.ledger_id)
        view = LedgerView(self._cluster, found, _keyless_digester(record), prove)
        whole = RangeRead(view, PageFetcher(view, without=without))
        with _failures(record.ledger_id):
            async with aclosing(whole.columns(first_entry, last_entry)) as pages:
                async for page in pages:
                    yield page

    async def recover(self, ledger_id: int) -> LedgerRecord | None:
        """Returns the ledger's closed record, or None if the ledger was deleted; see
        `bookie.upkeep.repair_client.Peers.recover`."""
        with _failures(ledger_id):
            found = await self._cluster.ledgers.read(ledger_id)
            if found is None or found.record.is_closed:
                return None if found is None else found.record
            if found.record.verifier:
                raise _needs_password(ledger_id)
            checker = digester(found.record.digest_type, ledger_id, b"")
            try:
                return (await recover(self._cluster, found, checker, LedgerKey(ledger_id, b""))).record
            except NoSuchLedger:
                return None  # deleted in the meantime

    async def why_unreachable(self, bookie: BookieRef) -> str:
        """Returns why the bookie does not answer; see `bookie.upkeep.repair_client.Peers.why_unreachable`."""
        try:
            async with asyncio.timeout(REACHED_SECONDS_MAX):
                await self._cluster.bookies.info(bookie)
        except TimeoutError:
            return f"no answer within {REACHED_SECONDS_MAX:g} s"
        except BookieUnavailable as error:
            return error.why
        except LedgerError as error:
            return str(error)
        return ""

    async def close(self) -> None:
        """Closes all connections."""
        await self._cluster.bookies.close()


class _KeylessHmac(HmacDigester):
    """Accepts every digest of the correct width, because the ledger's key is not available here."""

    def bad_entries(self, _: Columns) -> list[int]:
        return []


def _keyless_digester(record: LedgerRecord) -> Digester:
    if record.digest_type is DigestType.HMAC_SHA256:
        return _KeylessHmac(record.ledger_id, b"")
    return digester(record.digest_type, record.ledger_id, b"")


def _gentle(config: ClientConfig) -> ClientConfig:
    """Returns the settings for reading in the background."""
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
        f"ledger {ledger_id} is not closed, and has a password: only its owner can recover it",
        "have its owner close it, or recover it with `bookledger ledger recover --password-file FILE "
        f"{ledger_id}`, or delete it; then try again",
    )


@contextmanager
def _failures(ledger_id: int) -> Iterator[None]:
    """Converts a client's errors to a bookie's errors; this is the only place where that is done."""
    try:
        yield
    except (LedgerError, MetadataError) as error:
        raise _failure(ledger_id, error) from error


def _failure(ledger_id: int, error: LedgerError | MetadataError) -> PeersFailed:
    match error:
        case EntryUnreadable(entry_id=entry_id, answers=answers):
            whose = "no other replica gave" if answers else "no other bookie should hold"
            return PeersFailed(
                ledger_id,
                f"{whose} entry {entry_id} of ledger {ledger_id}",
                "bring back any of them that are only away, and try again; an entry missing or damaged on every "
                f"replica is lost, and `bookledger ledger salvage {ledger_id} --output FILE` saves the others",
                entry_id=entry_id,
                answers=answers,
            )
        case NoSuchLedger():
            what, advice = f"ledger {ledger_id} was deleted in the meantime", "it needs no repair"
        case MetadataError() | MetadataUnavailable():
            what, advice = (
                f"cannot look up ledger {ledger_id}: {error}",
                "try again when the metadata is back",
            )
        case LedgerRecoveryFailed(is_undecided=True):
            away = "bring back any of these bookies that are only away, and try again"
            lost = f"if they are lost for good: `bookledger ledger recover --accept-loss {ledger_id}`"
            what, advice = str(error), f"{away}; {lost}"
        case _:
            what, advice = str(error), "bring back the bookies that it names, and try again"
    return PeersFailed(ledger_id, what, advice)
