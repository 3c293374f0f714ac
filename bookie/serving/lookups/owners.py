"""Authorizes clients that are restricted to one owner's ledgers. A ledger's owner is stored in its record, as the
custom metadata `owner`.

An owner also owns the ledgers of its sub-owners: `team-a` also owns those of `team-a/billing`, for example. Custom
metadata never changes, and no id is assigned twice, so a cached owner stays valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from metadata.errors import MetadataError
from metadata.records.ledger_record import OWNER, is_of
from metadata.records.ledger_store import LedgerStore

from ...wire.messages import Status
from .verifiers import LOOKUP_SECONDS_MAX, LOOKUPS_AT_ONCE_MAX

OWNERS_KEPT_MAX = 65_536
"""Limit on ledgers whose owner is cached; when it is exceeded, the cache is cleared."""

Refused = dict[int, tuple[Status, str]]


class Owners:
    """Looks up and caches owners, for one bookie. Belongs to one event loop."""

    def __init__(self, ledgers: LedgerStore) -> None:
        self._ledgers = ledgers
        self._known: dict[int, bytes] = {}
        self._lookups = asyncio.Semaphore(LOOKUPS_AT_ONCE_MAX)

    def knows(self, ledger_id: int, owner: str) -> bool:
        """Returns whether the cache shows that the ledger belongs to this owner."""
        return is_of(self._known.get(ledger_id), owner)

    async def refused(self, ledger_ids: Iterable[int], owner: str) -> Refused:
        """Returns the ledgers that do not belong to this owner, or whose owner cannot be looked up, each with the
        reason."""
        asked = [n for n in dict.fromkeys(ledger_ids) if not self.knows(n, owner)]
        refused: Refused = {}
        for first in range(0, len(asked), LOOKUPS_AT_ONCE_MAX):
            some = asked[first : first + LOOKUPS_AT_ONCE_MAX]
            found = await asyncio.gather(*[self._refusal(n, owner) for n in some])
            refused |= {n: why for n, why in zip(some, found, strict=True) if why is not None}
        return refused

    async def _refusal(self, ledger_id: int, owner: str) -> tuple[Status, str] | None:
        if ledger_id not in self._known and (why := await self._look_up(ledger_id)):
            return Status.UNKNOWN, why
        its = self._known.get(ledger_id)
        if is_of(its, owner):
            return None
        whose = (
            "not there" if its is None else f"of {its.decode(errors='replace')!r}" if its else "of no owner"
        )
        wanted = f"custom metadata {OWNER!r} is {owner!r}"
        return (
            Status.UNAUTHORIZED,
            f"the ledger is {whose}; this certificate covers only those whose {wanted}",
        )

    async def _look_up(self, ledger_id: int) -> str:
        """Looks up the owner; returns why the look-up failed, or ""."""
        try:
            async with self._lookups, asyncio.timeout(LOOKUP_SECONDS_MAX):
                found = await self._ledgers.read(ledger_id) if ledger_id >= 0 else None
        except (MetadataError, TimeoutError) as error:
            return f"cannot look up its owner: {error}"
        if found is not None:
            if len(self._known) >= OWNERS_KEPT_MAX:
                self._known.clear()
            self._known[ledger_id] = found.record.custom_metadata.get(OWNER, b"")
        return ""
