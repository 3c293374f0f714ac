"""Detects a rollback of the metadata store: it went back to an older copy of itself.

An etcd restored from a snapshot, or an older SQLite file in its place, lacks what came after it: it gives ids out
twice, and would have bookies collect newer ledgers. Two things only rise in a store that never went back: its
revision, and the version of the key that this bookie alone writes (`metadata.keys.life`). A bookie that sees one of
them fall, while it runs or since its last run, has the cluster hold back as after a restore
(`metadata/backup/hold.py`), and the counter of ids moved past what it holds.

Not noticed is a store that went back to a copy younger than this bookie's last write, and in which others have
written more since than this bookie has seen: there the identities of ledgers keep two ledgers of one id apart (rule
W8). Of a ledger that was open and changed its ensemble after the copy was made the older record names bookies that
lack what came later. Until a bookie has looked, a third of its lease later at most, a recovery is stopped by the
revision that this bookie tells whoever asks for a last-add-confirmed (`ledgers/recovering/accepted_metadata.py`), or by
those that have what came later (`witnesses.py`), where they are registered and answer.
"""

from __future__ import annotations

import asyncio
import logging
import time

from metadata import keys
from metadata.backup import hold
from metadata.backup.hold import Noticed
from metadata.counting.outage import weight
from metadata.errors import MetadataError
from metadata.records import decommissioned
from metadata.store import MetadataStore

from ...errors import BookieError
from ...storage.bookie import Bookie
from ...upkeep.inventory.unknown_ids import give_no_id_twice
from ...upkeep.threads import in_thread
from .directory_generation import Lives

log = logging.getLogger(__name__)

KEPT_SECONDS = 30.0
"""How often what was seen of the store is saved to the directory, if it has changed; and at the end."""


class RollbackDetector:
    """Compares the store with what one bookie has seen of it before."""

    def __init__(self, store: MetadataStore, bookie: Bookie, lives: Lives) -> None:
        self._store = store
        self._bookie = bookie
        self._lives = lives
        self._key = keys.life(lives.cookie.bookie_id)
        self._keep_at = asyncio.get_running_loop().time() + KEPT_SECONDS
        self._kept = (0, 0)
        self._ids_are_due = False

    async def run(self, look_seconds: float) -> None:
        """Checks periodically until cancelled; retries after errors."""
        try:
            while True:
                try:
                    await self.look_once()
                except (BookieError, MetadataError, OSError) as error:
                    log.log(weight(error), "cannot tell yet whether the metadata went back: %s", error)
                await self._keep_when_due()
                await asyncio.sleep(look_seconds)
        finally:
            self._keep()

    async def _keep_when_due(self) -> None:
        now, seen = asyncio.get_running_loop().time(), (self._lives.version, self._lives.revision)
        if now >= self._keep_at and seen != self._kept:
            await in_thread(self._keep)
            self._keep_at, self._kept = now + KEPT_SECONDS, seen

    def _keep(self) -> None:
        """Saves what was seen. A failure is only logged: the saved values are older then, and the disk is monitored
        elsewhere."""
        try:
            self._lives.keep()
        except OSError as error:
            log.info("cannot save the metadata revision seen last: %s", error)

    async def look_once(self) -> bool:
        """Returns whether the store went back, after acting on it. Raises BookieError, MetadataError."""
        version, revision = self._lives.version, self._lives.revision
        page = await self._store.list_page(self._key, limit=1)
        mine = next((one.version for one in page.items if one.key == self._key), 0)
        noticed = None
        if page.revision < revision:
            noticed = self._noticed("the metadata's revision", page.revision, revision)
        elif mine < version and not await self._has_left():
            noticed = self._noticed(f"the version of the key {self._key}", mine, version)
        if noticed is not None:
            await self._hold_back(noticed)
            self._lives.version = mine  # only once that succeeded: until then it is detected again
        # The key is written by this bookie alone, also where the answer to a write was lost.
        self._lives.version = max(self._lives.version, mine)
        self._lives.revision = page.revision
        if noticed is not None:  # or it would be detected once more after a crash, and after it was accepted
            await in_thread(self._keep)
        if self._ids_are_due:
            await self._give_no_id_twice()
        return noticed is not None

    def _noticed(self, compared: str, found: int, expected: int) -> Noticed:
        return Noticed(self._lives.cookie.bookie_id, compared, found, expected)

    async def _has_left(self) -> bool:
        """Whether this bookie was decommissioned while it hung: its key is gone for that reason."""
        return await decommissioned.read(self._store, self._lives.cookie.incarnation) is not None

    async def _hold_back(self, noticed: Noticed) -> None:
        log.error(
            "the metadata went back to an older copy of itself (%s): nothing is created, recovered, healed or "
            "collected until that is accepted: bookledger metadata check",
            noticed,
        )
        now_ms = time.time_ns() // 1_000_000
        await hold.begin(self._store, backup_ms=0, now_ms=now_ms, noticed=noticed)
        self._ids_are_due = True

    async def _give_no_id_twice(self) -> None:
        """Is tried again until it is done: until then a sick disk is not to keep what was noticed from counting."""
        await self._bookie.checkpoint()
        me = self._lives.cookie.bookie_id
        await give_no_id_twice(self._store, me, await in_thread(self._bookie.index.ledger_ids))
        self._ids_are_due = False
