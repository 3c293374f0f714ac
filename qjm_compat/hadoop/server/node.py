"""A JournalNode: one named acceptor for every journal that NameNodes ask for."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ledgers.aio import LedgerClient
from metadata import keys
from metadata.errors import BadRecord
from metadata.records.journal_node import decode
from metadata.records.journal_store import list_journals
from metadata.store import MetadataStore, list_all

from ...acceptor.journal import Journal
from ...config import JournalConfig
from ...edits import crc_batch as crc_batch  # imports NumPy before the first large batch needs it
from ...error_translation import metadata_errors
from ...errors import BadRequest
from ...requests import R, Request
from ..node_limits import NodeLimits
from .peer_nodes import Address, PeersByUrl

log = logging.getLogger(__name__)


class JournalNode:
    """One node's journals, opened on first use. Belongs to the event loop of its ledger client."""

    def __init__(
        self,
        name: str,
        store: MetadataStore,
        client: LedgerClient,
        config: JournalConfig,
        peers: Sequence[Address] = (),
        limits: NodeLimits | None = None,
    ) -> None:
        self._journals_max = (limits or NodeLimits()).journals_max
        self.name = name
        self.journals: dict[str, Journal] = {}
        self._store = store
        self._client = client
        self._config = config
        self._peers = peers

    def journal(self, journal_id: str) -> Journal:
        """Opens a journal. Raises BadRequest if the id is invalid or there are too many journals."""
        found = self.journals.get(journal_id)
        if found is not None:
            return found
        if not keys.is_name(journal_id):
            raise BadRequest(
                f"bad journal id: {journal_id[:200]} (letters, digits, '.', '_' and '-', at most 128)"
            )
        self._make_room()
        found = self.journals[journal_id] = self._opened(journal_id)
        return found

    async def call(self, journal_id: str, request: Request[R]) -> R:
        """Runs a request against a journal. Raises JournalError."""
        return await self.journal(journal_id).call(request)

    async def close(self) -> None:
        """Closes all journals. The next writer ends their open segments."""
        for journal in self.journals.values():
            await journal.close()
        self.journals.clear()

    async def peer_addresses(self) -> list[Address]:
        """Returns the HTTP addresses of the nodes to copy from: the configured ones, and those that are alive in the
        same metadata."""
        found = list(self._peers)
        with metadata_errors():
            async for item in list_all(self._store, keys.JOURNAL_NODES):
                try:
                    node = decode(item.key, item.value)
                except BadRecord as error:
                    log.warning("%s", error)
                    continue
                host, _, port = node.http_address.rpartition(":")
                if node.name != self.name and port.isdecimal():
                    found.append((host.strip("[]"), int(port)))
        return found

    async def acceptors(self) -> dict[str, tuple[str, ...]]:
        """Returns every journal in this metadata, with its acceptors. Raises JournalUnavailable."""
        found: dict[str, list[str]] = {}
        with metadata_errors():
            async for journal_id, name in list_journals(self._store):
                found.setdefault(journal_id, []).append(name)
        return {journal_id: tuple(names) for journal_id, names in found.items()}

    def beside(self, journal_id: str, name: str) -> Journal:
        """Opens another acceptor in the same metadata for reading, whether or not a daemon serves it."""
        return Journal(journal_id, name, self._store, self._client, self._config, {})

    def _opened(self, journal_id: str) -> Journal:
        peers = PeersByUrl(journal_id, self.peer_addresses)
        return Journal(journal_id, self.name, self._store, self._client, self._config, peers)

    def _make_room(self) -> None:
        if len(self.journals) < self._journals_max:
            return
        unknown = next((one for one, journal in self.journals.items() if journal.is_unknown), None)
        if unknown is None:
            raise BadRequest(f"this JournalNode already serves {self._journals_max} journals, the maximum")
        del self.journals[unknown]
