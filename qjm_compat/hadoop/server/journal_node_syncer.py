"""Syncs a JournalNode's journals from the other acceptors in the same metadata, like Hadoop's JournalNodeSyncer.

The other acceptors' daemons need not be running, because the segments are ledgers. Stock JournalNodes, and nodes with
other metadata, are not visible from here; for those, use `bookledger journal sync`, which takes the metadata of each
acceptor.
"""

from __future__ import annotations

import logging

from metadata.rate_limit import RateLimit

from ...config import JournalConfig
from ...errors import BadRequest
from ...sync.background import BackgroundSync
from ...sync.syncer import JournalSyncer
from .node import JournalNode

log = logging.getLogger(__name__)


class NodeSync:
    """Runs the sync rounds of one daemon, for all journals that its acceptor holds."""

    def __init__(self, node: JournalNode, config: JournalConfig) -> None:
        self._node = node
        self._pace = RateLimit(config.sync_bytes_per_second).keep
        self._syncers: dict[tuple[str, tuple[str, ...]], JournalSyncer] = {}
        self.background = BackgroundSync(config.sync_interval_seconds, self._all)
        if config.sync_interval_seconds:
            self.background.start()

    async def _all(self) -> dict[str, JournalSyncer]:
        """Returns the syncers of the journals that this acceptor shares with others. Raises JournalUnavailable."""
        found: dict[str, JournalSyncer] = {}
        before, self._syncers = self._syncers, {}
        for journal_id, names in (await self._node.acceptors()).items():
            if self._node.name not in names or len(names) == 1:
                continue
            key = journal_id, names
            try:
                syncer = before.get(key) or self._syncer(journal_id, names)
            except BadRequest as error:  # more journals than this node may serve
                log.info("journal %s is not being synced: %s", journal_id, error)
                continue
            found[journal_id] = self._syncers[key] = syncer
        return found

    def _syncer(self, journal_id: str, names: tuple[str, ...]) -> JournalSyncer:
        own = self._node.journal(journal_id)
        others = [self._node.beside(journal_id, name) for name in names if name != self._node.name]
        return JournalSyncer([own, *others], self._pace, targets=[own.name])
