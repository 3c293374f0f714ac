"""Salvaging a ledger: reading what there is of it from any living bookie, without fencing or changing anything.

What a quorum can prove does not matter here. Each entry is verified by its digest; what lies past the last entry that
the record or a bookie's last-add-confirmed proves is given, too, and may not be part of the ledger. What nobody has,
or nobody can read, is told as gaps, and who could not be asked in `silent`.
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

from ..authorized import Keys
from ..cluster import Cluster
from ..errors import EntryUnreadable, LedgerError
from ..integrity.encryption import cipher_of
from ..protocol.fenced_reads import Replica
from .held_copies import ENTRY_ID_MAX, Gap, HeldCopies
from .ledger_calls import Holders

Part = Columns | Gap
"""Verified entries without a gap between them, or entries that nobody gave."""

ASKED_AT_ONCE_MAX = 64
"""Bookies that are asked at a time how far the ledger is confirmed."""

UNDECIPHERED = ("decryption",)
"""In place of bookies, where an entry's bytes are as they were written, and not made with the ledger's key."""


class Salvage(Holders):
    """What there is of a ledger at living bookies.

    Made by `LedgerClient.salvage_ledger`; belongs to its event loop. Each entry is verified by its digest. What lies
    past `proven_through`, the last entry that is proven to be confirmed, is given, too, and may not be part of the
    ledger; what nobody has, or nobody can read, is told as gaps. Nothing is fenced or changed. `silent`: bookies that
    the ledger is placed at, or that were named, and could not be asked, or from some entry on no more, with why.
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
        """Once all parts are given: bookies that answered and cannot say whether there was more."""
        return [] if self._copies is None else self._copies.unsure

    async def find_holders(self, bookies: Collection[str]) -> None:
        """Asks every living bookie, or those of these names, how far the ledger is confirmed.

        Raises LedgerError for a name under which nobody lives, MetadataError.
        """
        living = {one.bookie.bookie_id: one.bookie for one in await list_bookies(self._cluster.store)}
        if strange := sorted(set(bookies) - living.keys()):
            there = ", ".join(living) or "none"
            raise LedgerError(
                f"no bookie lives under the name {', '.join(strange)}; those that live: {there}"
            )
        placed = [ref for fragment in self.record.fragments for ref in fragment.ensemble]
        # Those that should have it are asked first.
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
        """All that there is, in order, once: entries, and the gaps between them."""
        assert self._copies is not None
        self._cluster.check_process()
        async with aclosing(self._walk(self._copies)) as found:
            async for part in found:
                for one in [part] if isinstance(part, Gap) else self._opened(part):
                    yield one

    # --- how ----------------------------------------------------------------------------------

    def _opened(self, columns: Columns) -> list[Part]:
        """As they were appended. An entry that the ledger's key does not open is a gap."""
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
