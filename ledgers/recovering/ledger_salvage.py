"""Salvages a ledger: reads all available entries from any live bookie, without fencing or changing anything.

It does not matter whether a quorum can prove an entry, but each entry is verified by its digest. Entries after the last
one that the record or a bookie's last-add-confirmed proves are included, although they may not be part of the ledger.
Entries that no bookie has, or that cannot be read, are reported as gaps; bookies that could not be asked are listed in
`silent`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from bookie.wire import Columns
from metadata.healing.presence import Presence, whereabouts
from metadata.records.cluster import list_bookies
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import VersionedRecord

from ..cluster import Cluster
from ..errors import EntryUnreadable, LedgerError
from ..integrity.encryption import cipher_of
from ..ledger_access import Keys
from ..protocol.fenced_reads import Replica
from .held_copies import ENTRY_ID_MAX, Gap, HeldCopies
from .ledger_calls import Holders

Part = Columns | Gap
"""Consecutive verified entries, or a gap of entries that no bookie returned."""

ASKED_AT_ONCE_MAX = 64
"""Maximum number of bookies that are asked at the same time how far the ledger is confirmed."""

UNDECIPHERED = ("decryption",)
"""Listed in place of bookies if an entry's digest is correct but the entry was not encrypted with the ledger's key."""


class Salvage(Holders):
    """The available entries of a ledger on live bookies.

    Created by `LedgerClient.salvage_ledger`; belongs to its event loop. Each entry is verified by its digest. Entries
    after `proven_through`, the last entry that is proven to be confirmed, are included, although they may not be part
    of the ledger. Entries that no bookie has, or that cannot be read, are reported as gaps. Nothing is fenced or
    changed. `silent` lists bookies that could not be asked, or that stopped answering at some entry, each with the
    reason.
    """

    def __init__(
        self,
        cluster: Cluster,
        found: VersionedRecord,
        keys: Keys,
        encryption_key: bytes | None,
        *,
        past_the_end: bool,
    ) -> None:
        super().__init__(cluster, found.record, keys, fence=False)
        self._cipher = cipher_of(found.record, encryption_key)
        self._copies: HeldCopies | None = None
        is_bounded = found.record.is_closed and not past_the_end
        self._last = self.proven_through if is_bounded else ENTRY_ID_MAX

    @property
    def unsure(self) -> list[str]:
        """Bookies that answered but cannot rule out that there are further entries. The list is complete once all parts
        have been yielded."""
        return [] if self._copies is None else self._copies.unsure

    async def find_holders(self, bookies: Collection[str]) -> None:
        """Asks every live bookie, or only those with these names, how far the ledger is confirmed.

        Raises LedgerError for a name that no live bookie has, and MetadataError.
        """
        living = {one.bookie.bookie_id: one.bookie for one in await list_bookies(self._cluster.store)}
        if strange := sorted(set(bookies) - living.keys()):
            there = ", ".join(living) or "none"
            raise LedgerError(f"no live bookie is named {', '.join(strange)}; live bookies: {there}")
        placed = [ref for fragment in self.record.fragments for ref in fragment.ensemble]
        # Bookies that should have the ledger are asked first.
        wanted = [
            one
            for one in dict.fromkeys([*placed, *living.values()])
            if not bookies or one.bookie_id in bookies
        ]
        refs = [one for one in wanted if living.get(one.bookie_id) == one]
        for ref in wanted:
            if ref not in refs:
                found = await whereabouts(self._cluster.store, ref)
                if found.presence is not Presence.LIVING:
                    self.silent.setdefault(ref.bookie_id, found.why)
        turns = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

        async def ask(ref: BookieRef) -> None:
            async with turns:
                await self._ask_lac(ref)

        await asyncio.gather(*map(ask, refs))
        replicas = self._unless_silent([Replica(one.bookie_id) for one in refs])
        self._copies = HeldCopies(replicas, through=self.proven_through, last_entry=self._last)

    async def parts(self) -> AsyncGenerator[Part, None]:
        """Yields all available entries and the gaps between them, in order and once each."""
        assert self._copies is not None
        self._cluster.check_process()
        async with aclosing(self._walk(self._copies)) as found:
            async for part in found:
                for one in [part] if isinstance(part, Gap) else self._opened(part):
                    yield one

    # --- decryption -----------------------------------------------------------------------------

    def _opened(self, columns: Columns) -> list[Part]:
        """Returns the entries as they were appended. Entries that cannot be decrypted with the ledger's key become
        gaps."""
        if self._cipher is None:
            return [columns]
        parts: list[Part] = []
        while len(columns):
            try:
                return [*parts, self._cipher.open(columns)]
            except EntryUnreadable as error:
                bad = error.entry_id
                before = columns.between(columns.first_entry, bad - 1)
                parts += [self._cipher.open(before)] if len(before) else []
                parts.append(Gap(bad, bad, UNDECIPHERED))
                columns = columns.between(bad + 1, columns.last_entry)
        return parts
