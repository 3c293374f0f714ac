"""Opens and closes the acceptors of one journal, on ledgers or at JournalNodes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ledgers import ClientConfig, LedgerError
from ledgers.aio import LedgerClient
from metadata import open_store
from metadata.errors import MetadataError
from metadata.rate_limit import RateLimit

from .acceptor.journal import Journal
from .acceptor.unavailable_acceptor import AbsentAcceptor
from .config import AcceptorConfig, JournalConfig
from .sync.background import BackgroundSync
from .sync.syncer import JournalSyncer

if TYPE_CHECKING:
    from .hadoop.client.acceptor import RemoteAcceptor

log = logging.getLogger(__name__)


class OpenAcceptors:
    """The acceptors of one journal. `by_name` is empty before `open` and after `close`."""

    def __init__(
        self,
        journal_id: str,
        acceptors: Sequence[AcceptorConfig],
        config: JournalConfig,
        client_config: ClientConfig | None,
    ) -> None:
        self.by_name: dict[str, Journal | RemoteAcceptor | AbsentAcceptor] = {}
        self._journal_id = journal_id
        self._acceptors = acceptors
        self._config = config
        self._client_config = client_config
        self._stack = AsyncExitStack()

    @property
    def on_ledgers(self) -> list[Journal | AbsentAcceptor]:
        """All acceptors, if they store their segments in ledgers; none, if they are JournalNodes."""
        found = [one for one in self.by_name.values() if isinstance(one, Journal | AbsentAcceptor)]
        return found if len(found) == len(self.by_name) else []

    @property
    def journals(self) -> list[Journal]:
        """The acceptors on ledgers that could be opened."""
        return [one for one in self.by_name.values() if isinstance(one, Journal)]

    def open_remote(self, addresses: Sequence[str]) -> None:
        """Uses JournalNodes as acceptors. The first call to each node connects to it."""
        from .hadoop.client.acceptor import RemoteAcceptor

        for address in addresses:
            self.by_name[address] = RemoteAcceptor(address, self._journal_id, self.by_name)

    async def open(self) -> None:
        """Opens acceptors on ledgers. Raises LedgerError or MetadataError if none can be opened."""
        clients: dict[str, LedgerClient] = {}
        for acceptor in self._acceptors:
            try:
                opened: Journal | AbsentAcceptor = await self._open(acceptor, clients)
            except (LedgerError, MetadataError) as error:
                opened = AbsentAcceptor(acceptor.name, error)
                log.warning("acceptor %s cannot be opened: %s", acceptor.name, error)
                last_error = error
            self.by_name[acceptor.name] = opened
        if not self.journals:
            raise last_error

    def background_sync(self) -> BackgroundSync | None:
        """Returns the background sync that brings acceptors on ledgers up to date, because no daemon does so for them.

        Returns None if there is a single acceptor, if syncing is off, or for JournalNodes, which sync on their own.
        """
        seconds, acceptors = self._config.sync_interval_seconds, self.on_ledgers
        if not seconds or len(acceptors) < 2:
            return None
        syncers = {
            self._journal_id: JournalSyncer(acceptors, RateLimit(self._config.sync_bytes_per_second).keep)
        }

        async def all_of_them() -> dict[str, JournalSyncer]:
            return syncers

        return BackgroundSync(seconds, all_of_them)

    async def close(self) -> None:
        """Closes all acceptors and the clients that they use."""
        for journal in self.by_name.values():
            await journal.close()
        self.by_name.clear()
        await self._stack.aclose()

    def what_closing_waits_for(self) -> Iterator[str]:
        """Describes each segment that is not closed yet, for a log line."""
        for journal in self.journals:
            for start_txid, ledger_id in journal.open_segments:
                yield f"acceptor {journal.name} to close segment {start_txid} in ledger {ledger_id}"

    async def _open(self, acceptor: AcceptorConfig, clients: dict[str, LedgerClient]) -> Journal:
        uri = acceptor.metadata_uri
        if uri not in clients:
            client = LedgerClient(uri, config=self._client_config)
            clients[uri] = await self._stack.enter_async_context(client)
        store = await open_store(uri)
        self._stack.push_async_callback(store.close)
        return Journal(self._journal_id, acceptor.name, store, clients[uri], self._config, self.by_name)
