"""Inspects a journal's acceptors in the metadata and in ledgers, without calling or disturbing the acceptors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from ledgers import ClientConfig
from ledgers.aio import LedgerClient
from ledgers.protocol.quorum import majority
from metadata import keys, open_store, opened_store
from metadata.errors import BadRecord
from metadata.records.journal_record import FinalizedSegment, decode_finalized
from metadata.records.journal_store import JournalStore, VersionedState, list_journals
from metadata.store import MetadataStore, list_all

from ...acceptor.acceptor_ledgers import AcceptorLedgers
from ...config import AcceptorConfig, JournalConfig
from ...error_translation import metadata_errors
from ...errors import JournalUnavailable
from .acceptor_seen import AcceptorSeen

LOOKS_MAX = 20
"""Maximum number of attempts to read an acceptor while its writer keeps changing it."""

SEEN_SECONDS_MAX = 20.0
SEEN_POLL_SECONDS = 0.02
"""How long it may take for readers to see a writer's last edits, and how often to check."""

LAGGARD_SECONDS_MAX = 5.0
"""How long to wait for acceptors that may be slower than the majority."""

Records = tuple[tuple[FinalizedSegment, ...], tuple[str, ...]]
"""An acceptor's decodable records, in order, and a description of the problem for each record that cannot be decoded.
"""


def cannot_be_read(seen: AcceptorSeen) -> JournalUnavailable:
    """Returns the error for an acceptor with unreadable records, for callers that need all of them."""
    return JournalUnavailable(f"acceptor {seen.name} cannot be read: {seen.unreadable[0]}")


class JournalInspector:
    """Reads the state of one journal's acceptors, without changing anything. Use as `async with`. Raises
    JournalUnavailable."""

    def __init__(
        self,
        journal_id: str,
        acceptors: Sequence[AcceptorConfig],
        config: JournalConfig | None = None,
        client_config: ClientConfig | None = None,
    ) -> None:
        self.journal_id = journal_id
        self.acceptors = {acceptor.name: acceptor.metadata_uri for acceptor in acceptors}
        self._config = config or JournalConfig()
        self._client_config = client_config
        self._stack = AsyncExitStack()
        self._stores: dict[str, MetadataStore] = {}
        self._clients: dict[str, LedgerClient] = {}
        self._not_opened: dict[str, JournalUnavailable] = {}

    async def __aenter__(self) -> Self:
        try:
            for uri in sorted(set(self.acceptors.values())):
                await self._connect(uri)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    @property
    def clients(self) -> dict[str, LedgerClient]:
        """The clients of the clusters in which acceptors keep their ledgers, by metadata URI."""
        return self._clients

    @property
    def password(self) -> bytes:
        """The password of the journal's ledgers."""
        return self._config.password

    def ledgers(self, acceptor: str) -> AcceptorLedgers:
        """Returns the ledgers of an acceptor, for reading."""
        client = self._clients[self.acceptors[acceptor]]
        return AcceptorLedgers(client, self.journal_id, acceptor, self._config)

    async def look(self, acceptor: str) -> AcceptorSeen | None:
        """Returns an acceptor's state and records as of the same moment, or None if it has no state."""
        seen = await self._look(acceptor)
        if seen is not None and seen.unreadable:
            raise cannot_be_read(seen)
        return seen

    async def _look(self, acceptor: str) -> AcceptorSeen | None:
        store = self._store(self.acceptors[acceptor])
        journal = JournalStore(store, self.journal_id, acceptor)
        with metadata_errors():
            state = await journal.read_state()
            for _ in range(LOOKS_MAX):
                records, unreadable = await _records_of(store, journal, self.journal_id, acceptor)
                again = await journal.read_state()
                if _version(again) == _version(state):
                    return _seen(acceptor, again, records, unreadable)
                state = again
        raise JournalUnavailable(f"acceptor {acceptor} of journal {self.journal_id} keeps changing")

    async def look_at_all(self) -> dict[str, AcceptorSeen]:
        """Returns the acceptors that have a state."""
        found = {name: await self.look(name) for name in self.acceptors}
        return {name: seen for name, seen in found.items() if seen is not None}

    async def look_at_those_that_answer(
        self,
    ) -> tuple[dict[str, AcceptorSeen], dict[str, JournalUnavailable]]:
        """Like `look_at_all`, but also returns unreadable records, and the errors of acceptors that cannot be read."""
        found: dict[str, AcceptorSeen] = {}
        silent: dict[str, JournalUnavailable] = {}
        for name in self.acceptors:
            try:
                seen = await self._look(name)
            except JournalUnavailable as error:
                silent[name] = error
            else:
                if seen is not None:
                    found[name] = seen
        return found, silent

    async def look_at_others(self, uri: str) -> list[AcceptorSeen]:
        """Returns all acceptors of the journal in one metadata store, each with all its records. Includes acceptors
        that the inspector was not asked to inspect."""
        with metadata_errors():
            names = [
                name async for journal, name in list_journals(self._store(uri)) if journal == self.journal_id
            ]
        found = [await self._look_at(uri, name) for name in names]
        return [seen for seen in found if seen is not None]

    async def in_progress(self) -> str | None:
        """Describes the segment that a writer may be writing, or returns None if there is no such segment.

        A segment begins only after the earlier ones are finalized at a majority. If an acceptor has an earlier segment
        that is not finalized, that segment is a leftover, and no writer writes to it.
        """
        found = await self.look_at_all()
        finalized = max((one.last_final_start for one in found.values()), default=0)
        for name, seen in found.items():
            for segment in seen.in_progress:
                if segment.start_txid > finalized:
                    return f"segment {segment.start_txid} at acceptor {name}, epoch {segment.writer_epoch}"
        return None

    async def until_seen(self, start_txid: int, last_txid: int) -> None:
        """Waits until readers at a majority of the acceptors can see a segment's edits up to `last_txid`.

        A ledger's writer makes its last entry visible to readers once it has been idle for a moment; if it releases the
        ledger before that, it never does. Raises JournalUnavailable after SEEN_SECONDS_MAX.
        """
        needed = majority(tuple(range(len(self.acceptors)))).needed
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SEEN_SECONDS_MAX
        while await self._seeing(start_txid, last_txid) < needed:
            if loop.time() > deadline:
                raise JournalUnavailable(f"readers do not see segment {start_txid} up to txid {last_txid}")
            await asyncio.sleep(SEEN_POLL_SECONDS)

    async def lacking(self, start_txid: int) -> list[str]:
        """Returns the acceptors that have not finalized a segment. Waits up to LAGGARD_SECONDS_MAX for those that are
        about to do so."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LAGGARD_SECONDS_MAX
        while left := await self._not_finalized(start_txid):
            if loop.time() > deadline:
                break
            await asyncio.sleep(SEEN_POLL_SECONDS)
        return left

    async def _not_finalized(self, start_txid: int) -> list[str]:
        seen = await self.look_at_all()
        return [name for name in self.acceptors if name not in seen or not seen[name].has_final(start_txid)]

    async def _seeing(self, start_txid: int, last_txid: int) -> int:
        seeing = 0
        for name, seen in (await self.look_at_all()).items():
            for segment in seen.in_progress:
                if segment.start_txid == start_txid:
                    end = await self.ledgers(name).look(segment.ledger_id)
                    seeing += end.end_txid is not None and end.end_txid >= last_txid
        return seeing

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def _look_at(self, uri: str, name: str) -> AcceptorSeen | None:
        with metadata_errors():
            journal = JournalStore(self._store(uri), self.journal_id, name)
            records = tuple([found.segment async for found in journal.list_segments()])
            return _seen(name, await journal.read_state(), records)

    def _store(self, uri: str) -> MetadataStore:
        """Returns the store with this URI. Raises JournalUnavailable if it could not be opened."""
        if uri in self._not_opened:
            raise self._not_opened[uri]
        return self._stores[uri]

    async def _connect(self, uri: str) -> None:
        """Opens a store. If a store cannot be opened, only its own acceptors are unavailable."""
        try:
            with metadata_errors():
                self._stores[uri] = await open_store(uri)
        except JournalUnavailable as error:
            self._not_opened[uri] = error
            return
        self._stack.push_async_callback(self._stores[uri].close)
        client = LedgerClient(uri, config=self._client_config)
        self._clients[uri] = await self._stack.enter_async_context(client)


async def journals_in(uri: str) -> list[tuple[str, str]]:
    """Returns the (journal id, acceptor) pairs of all journals in a metadata store. Raises JournalUnavailable."""
    with metadata_errors():
        async with opened_store(uri) as store:
            return [found async for found in list_journals(store)]


def _version(found: VersionedState | None) -> int | None:
    return found.version if found is not None else None


def _seen(
    name: str,
    found: VersionedState | None,
    records: tuple[FinalizedSegment, ...],
    unreadable: tuple[str, ...] = (),
) -> AcceptorSeen | None:
    if found is None:
        return None
    return AcceptorSeen(name, found.version, found.state, records, unreadable)


async def _records_of(store: MetadataStore, journal: JournalStore, journal_id: str, acceptor: str) -> Records:
    """Returns all records of an acceptor. Raises MetadataError if they cannot be listed."""
    try:
        return tuple([found.segment async for found in journal.list_segments()]), ()
    except BadRecord:
        return await _one_by_one(store, keys.journal_segments(journal_id, acceptor))


async def _one_by_one(store: MetadataStore, prefix: str) -> Records:
    records: list[FinalizedSegment] = []
    unreadable: list[str] = []
    async for item in list_all(store, prefix):
        try:
            records.append(decode_finalized(item.key, item.value))
        except BadRecord as error:
            unreadable.append(str(error))
    return tuple(records), tuple(unreadable)
