"""Detects whether the metadata store was rolled back to an older copy of itself. If it was not, vouches to recoveries
for the store.

An etcd restored from a snapshot lacks the later changes, as does an older SQLite file that has replaced the current
one. Such a store would assign ids twice, cause bookies to collect newer ledgers, and list ensembles that ledgers no
longer use. Each bookie therefore has its own key in the store. It renews the key as often as its lease, and counts the
renewals in its directory first (`directory_generation.py`). If the key in the store has a lower count, the store was
rolled back, whatever its revision. It was also rolled back if its revision has decreased. A bookie makes this
comparison before it registers, at each renewal, and for each fence that it answers. If the store was rolled back, the
bookie puts the cluster on hold as after a restore (`metadata/backup/hold.py`) before it renews or answers anything
else.

A bookie counts as away if it could not renew its key for longer than its lease lasts. It vouches for the period since
it last returned, but cannot vouch for the period before that, when it did not renew its key. It vouches for all time
once every registered bookie has renewed its key since that return and there is no hold, because a bookie that was
running while this one was away would have noticed a rollback.

A bookie that was away when an operator accepted older metadata compares its notes with the ledger records before it
serves, and updates the records from its notes. The cluster does not have to be put on hold again.

The watch does not notice a rollback to a copy made after this bookie's last renewal.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from metadata import keys
from metadata.backup import hold
from metadata.backup.hold import Accepted, Noticed
from metadata.counting.outage import weight
from metadata.errors import KeyConflict, MetadataError
from metadata.leases import lease_clock
from metadata.records import decommissioned_bookies, directory_generations
from metadata.records.cluster import cluster_id
from metadata.records.directory_generations import Life, life_in
from metadata.records.ledger_record import BookieRef
from metadata.store import MetadataStore, Versioned, list_all
from metadata.version import NO_VERSION

from ...errors import BookieError
from ...storage.bookie import Bookie
from ...upkeep.inventory.metadata_reconciliation import Compared, bring_up, differences, kept_in
from ...upkeep.inventory.unknown_ids import give_no_id_twice
from ...upkeep.threads import in_thread
from .directory_generation import Lives

log = logging.getLogger(__name__)

COMPARED_SECONDS_MAX = 2.0
"""Time limit of a comparison: if the store does not answer within this time, a fence is answered without vouching for
the store."""

NEVER = 0
"""Used instead of a revision if a bookie cannot vouch for the store at all."""

ALWAYS = 1
"""The first revision of any store."""


class StoreComparison:
    """Compares the store with the state that one bookie remembers.

    `accepted`: an operator's acceptance of older metadata while the bookie was away, or None. If there was one, only
    this bookie waits until the ledger records include its notes; the rest of the cluster is not put on hold.
    """

    def __init__(self, store: MetadataStore, lives: Lives, *, is_start: bool = True) -> None:
        self.is_start = is_start
        self.accepted: Accepted | None = None
        self._store = store
        self._lives = lives
        self._key = keys.life(lives.cookie.bookie_id)

    async def check_rollback(self) -> bool:
        """Returns whether the store was rolled back; if so, the cluster is on hold when this returns. Raises
        MetadataError."""
        lives = self._lives
        revision, mine, life = await self._look()
        renewals = 0 if mine is None or not life else life.renewals or (life.number and mine.version)
        noticed = None
        if revision < lives.revision:
            noticed = self.noticed("the metadata's revision", revision, lives.revision)
        elif renewals < lives.settled and not await self._has_left():
            noticed = self.noticed(f"the renewals of the key {self._key}", renewals, lives.settled)
        self.accepted = None if noticed is None else await self._accepted_meanwhile()
        if self.accepted is not None:
            return False  # nothing is saved: after a crash the bookie must notice the rollback again
        if noticed is not None:
            await self.hold_back(noticed)
            # Changed only once the hold has begun, so that until then the bookie notices the rollback again.
            lives.renewals = renewals
        lives.renewals = max(lives.renewals, renewals)
        lives.settled = renewals
        lives.revision, lives.version = revision, NO_VERSION if mine is None else mine.version
        if noticed is not None:
            # Otherwise the bookie would notice the rollback again after a crash, even after it was accepted.
            await in_thread(lives.keep)
        return noticed is not None

    async def _look(self) -> tuple[int, Versioned | None, Life | None]:
        """Returns the store's revision, the bookie's key in it, and the value of that key."""
        page = await self._store.list_page(self._key, limit=1)
        mine = next((one for one in page.items if one.key == self._key), None)
        life = None if mine is None else life_in(mine, self._lives.cookie.incarnation)
        return page.revision, mine, life

    def noticed(self, compared: str, found: int = 0, expected: int = 0) -> Noticed:
        return Noticed(self._lives.cookie.bookie_id, compared, found, expected)

    async def _accepted_meanwhile(self) -> Accepted | None:
        """Returns the acceptance if an operator accepted older metadata while this bookie was away. Returns None if the
        store was rolled back after the bookie had returned, or if the bookie had only hung; the cluster is then put on
        hold as usual."""
        if not self.is_start or await self._store.get(keys.RESTORED) is not None:
            return None
        one, cookie = await hold.accepted(self._store), self._lives.cookie
        if one is None or one.number == self._lives.returned:
            return None
        return one if one.is_without(BookieRef(cookie.bookie_id, cookie.incarnation)) else None

    async def came_back(self) -> None:
        """Remembers the store's current state. Call this after the ledger records have been updated from the bookie's
        notes."""
        assert self.accepted is not None
        lives, lives.returned = self._lives, self.accepted.number
        lives.revision, mine, life = await self._look()
        lives.settled = lives.renewals = life.renewals if life else 0
        lives.version = NO_VERSION if mine is None else mine.version
        await in_thread(lives.keep)

    async def _has_left(self) -> bool:
        """Returns whether this bookie was decommissioned while it was hung, which would explain the missing key."""
        return await decommissioned_bookies.read(self._store, self._lives.cookie.incarnation) is not None

    async def hold_back(self, noticed: Noticed) -> None:
        log.error(
            "the metadata went back to an older copy of itself (%s): nothing is created, recovered, healed or "
            "collected until an operator accepts the older copy: bookledger metadata check",
            noticed,
        )
        now_ms = time.time_ns() // 1_000_000
        await hold.begin(self._store, backup_ms=0, now_ms=now_ms, noticed=noticed)


class MetadataWatch:
    """Renews one bookie's key, and tracks the revision since which the bookie vouches for the store."""

    def __init__(self, store: MetadataStore, bookie: Bookie, lives: Lives, lease_seconds: float) -> None:
        self._store = store
        self._bookie = bookie
        self._lives = lives
        self._comparison = StoreComparison(store, lives)
        self._lease_seconds = lease_seconds
        self._since = NEVER
        self._renewed_at = 0.0
        self._one_at_a_time = asyncio.Lock()
        self._ids_are_due = False
        self._now: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None

    async def begin(self, position: int) -> None:
        """Checks for a rollback, then begins the bookie's next generation. Raises BookieError, MetadataError."""
        await self._comparison.check_rollback()
        if self._comparison.accepted is not None:
            await self._bring_up()
        self._comparison.is_start = False
        await give_no_id_twice(self._store, self._lives.cookie.bookie_id, self._bookie.index.ledger_ids())
        self._since = await self._lives.begin(position)
        self._renewed_at = lease_clock.now()

    async def _bring_up(self) -> None:
        """Updates the ledger records from this bookie's notes, as if it had been running when the older metadata was
        accepted. The cluster is put on hold for this only if the result needs an operator's attention, or if the
        records include segments of logs or journals, which must be updated before any client writes to them."""
        cookie, notes = self._lives.cookie, self._bookie.index.notes
        await self._bookie.checkpoint()
        me = BookieRef(cookie.bookie_id, cookie.incarnation)
        seen = Compared()
        async for _ in differences(self._store, {me: kept_in(notes)}, seen):
            pass
        has_doubts = seen.unnoted or seen.unsure or seen.of_chains  # needs an operator's attention
        if has_doubts:
            self._comparison.is_start = False
            await self._comparison.check_rollback()
        made = await bring_up(self._store, {me: kept_in(notes)}, Compared())
        if has_doubts:
            return
        log.warning(
            "older metadata was accepted while this bookie was away: %d records were updated from its notes; "
            "copies that belong on other bookies are kept here until you run: bookledger metadata check --accept",
            made,
        )
        await self._comparison.came_back()

    async def run(self, renewal_seconds: float, position: Callable[[], int]) -> None:
        """Renews the key periodically until cancelled; retries after errors."""
        while True:
            await asyncio.sleep(renewal_seconds)
            try:
                await self.renew(position())
            except (BookieError, MetadataError, OSError) as error:
                log.log(
                    weight(error), "cannot determine yet whether the metadata is an older copy: %s", error
                )

    async def renew(self, position: int) -> bool:
        """Renews the key; returns whether the store was rolled back. Raises BookieError, MetadataError, OSError."""
        async with self._one_at_a_time:
            is_rolled_back = await self._compare()
            try:
                version = await self._lives.renew(position)
            except KeyConflict:  # no other process writes the key, so the store was just rolled back
                is_rolled_back |= await self._compare()
                raise
            if self._was_away() or self._since == NEVER:
                self._since = version
            self._renewed_at = lease_clock.now()
        if self._ids_are_due:
            await self._give_no_id_twice()
        return is_rolled_back

    def _was_away(self) -> bool:
        return lease_clock.now() - self._renewed_at > self._lease_seconds

    async def _compare(self) -> bool:
        is_rolled_back = await self._comparison.check_rollback()
        if is_rolled_back:
            self._distrust()
        return is_rolled_back

    async def saw_older(self, what: str) -> None:
        """Puts the cluster on hold because the metadata is in an older state than before. Raises MetadataError."""
        async with self._one_at_a_time:
            await self._comparison.hold_back(self._comparison.noticed(what))
            self._distrust()

    def _distrust(self) -> None:
        self._ids_are_due = True
        if self._since > ALWAYS:
            # Vouch for nothing until the next renewal, because the store's revisions restart from an earlier number.
            self._since = NEVER

    async def _give_no_id_twice(self) -> None:
        """Moves the id counter past the ids of the ledgers that this bookie holds. The caller retries until this
        succeeds, so that a failing disk does not conceal the rollback. Does nothing if the store contains no cluster:
        it was emptied or is being restored from a backup, and assigns no ids."""
        if await cluster_id(self._store) is None:
            return
        await self._bookie.checkpoint()
        me = self._lives.cookie.bookie_id
        await give_no_id_twice(self._store, me, await in_thread(self._bookie.index.ledger_ids))
        self._ids_are_due = False

    # --- vouching ----------------------------------------------------------------------------

    async def vouched_since(self) -> int:
        """Returns the revision since which every rollback of the store has led to a hold; NEVER if the bookie cannot
        vouch for the store, for example because the store does not answer. The result is based on a comparison that
        begins after this call. All calls made during one comparison share the result of the next."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._now))
        return await asyncio.shield(self._next)

    async def _after(self, last: asyncio.Task[int] | None) -> int:
        if last is not None:
            await asyncio.wait([last])
        self._now, self._next = self._next, None
        try:
            async with asyncio.timeout(COMPARED_SECONDS_MAX), self._one_at_a_time:
                if await self._compare() or self._was_away():
                    return NEVER
                if self._since > ALWAYS and await self._all_have_compared():
                    self._since = ALWAYS
                return self._since
        except (MetadataError, TimeoutError) as error:
            log.log(weight(error), "cannot confirm that the metadata is not an older copy: %s", error)
            return NEVER

    async def _all_have_compared(self) -> bool:
        """Returns whether every registered bookie has made a comparison since this bookie returned, and none has
        noticed a rollback."""
        registered = [one.key.removeprefix(keys.BOOKIES) async for one in list_all(self._store, keys.BOOKIES)]
        renewed = await directory_generations.last_renewed(self._store)
        is_unanimous = all(renewed.get(name, self._since) >= self._since for name in registered)
        return is_unanimous and await self._store.get(keys.RESTORED) is None
