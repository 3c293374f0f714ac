"""Finds the end of the entries on the surviving bookies of a ledger's last ensemble, whether or not that end is proven.

The entries end before the first one of which no surviving bookie has a copy and for which the answers do not show
whether it was confirmed. A recovery (rule R3) fails there; `is_provable` states whether one would have succeeded.

If the record may be older than the ledger (rule W8), it names bookies outside that ensemble that hold more entries.
These bookies are fenced too, and entries that they prove count as confirmed. If a bookie's note shows a later state of
the ledger, no loss is accepted before the record is updated to that state.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from bookie.wire import LacReply, ReadReply, Status
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..cluster import Cluster
from ..errors import LedgerError, LedgerRecoveryFailed, Unauthorized
from ..ledger_access import Keys
from ..protocol.fenced_reads import EntryVerdict, FencedReads
from ..protocol.fencing import OLDER, Fencing
from ..protocol.quorum import Outcome
from ..protocol.striping import Striping
from .held_copies import ENTRY_ID_MAX, Gap, HeldCopies
from .ledger_calls import Holders

GONE = (Status.WRONG_INCARNATION, Status.WRONG_IDENTITY)
"""Status codes which show that the bookie named in the record no longer exists, or no longer has its entries of this
ledger."""


class Survivors(Holders):
    """One inspection of the survivors: it asks every bookie of the last ensemble, and those that hold more than the
    record lists. With `fence`, each of them refuses the ledger's writer before it answers.

    `last_entry` and `length_bytes`: the end of the survivors' entries. `silent`: bookies that did not answer, and why;
    `gone`: silent bookies in whose place another bookie answers, or that hold a different ledger with this id.
    `unreadable`: number of entries in the last fragment, up to that end, whose only copies are on silent bookies.
    `behind`: each bookie's answer about the entry at which the walk ended. `is_provable`: a recovery with the same
    answers would close the ledger and lose nothing.
    """

    def __init__(self, cluster: Cluster, record: LedgerRecord, keys: Keys, *, fence: bool) -> None:
        super().__init__(cluster, record, keys, fence=fence)
        self.gone: set[BookieRef] = set()
        self._fence = fence
        self._fragment = record.fragments[-1]
        self._striping = Striping(record.shape)
        self._fencing = Fencing(record, self._digester)

    async def find_end(self) -> None:
        """Finds the end of the survivors' entries. Raises Unauthorized, MetadataError, LedgerError if a bookie answers
        but refuses the request, and LedgerRecoveryFailed if a fenced bookie reports a later state of the ledger."""
        await asyncio.gather(
            *(self._ask_lac(one) for one in (*self._fragment.ensemble, *self.record.also_at))
        )
        silent = [n for n, one in enumerate(self._fragment.ensemble) if one.bookie_id in self.silent]
        for n in silent:
            self._fencing.failed(n, "it did not answer")
        proven, length = self._fragment.first_entry - 1, self._fragment.length_before
        if (lac := self._fencing.last_add_confirmed) is not None and lac.last_entry > proven:
            proven, length = lac.last_entry, lac.length_bytes
        last, more_bytes, reads = await self._walked(proven + 1)
        self.behind = f"entry {last + 1}: {reads.describe(last + 1)}"
        self.is_provable = (
            self._fencing.outcome() is Outcome.WON
            and reads.verdict(last + 1) is EntryVerdict.ABSENT
            and last >= self.proven_through
            and not self.record.also_at
        )
        self.last_entry, self.length_bytes = last, length + more_bytes
        if not self.is_provable and last == proven:
            self.last_entry, self.length_bytes = await self._before(proven, length)
        silent = [n for n, one in enumerate(self._fragment.ensemble) if one.bookie_id in self.silent]
        self.unreadable = self._striping.held_by_none_but(silent, self._fragment.first_entry, self.last_entry)

    @property
    def missing(self) -> dict[BookieRef, str]:
        """The silent bookies by reference instead of by name, each with the reason."""
        return {self._refs[name]: why for name, why in self.silent.items()}

    # --- the walk -----------------------------------------------------------------------------

    async def _walked(
        self, first_entry: int, last_entry: int = ENTRY_ID_MAX, *, over_gaps: bool = False
    ) -> tuple[int, int, FencedReads]:
        """Returns the last entry present before the first gap (with `over_gaps`, the last entry present at all), the
        number of bytes from the first entry on, and the reads."""
        reads = FencedReads(
            self._striping, [one.bookie_id for one in self._fragment.ensemble], self._digester
        )
        through = last_entry if over_gaps else first_entry - 1
        copies = HeldCopies(
            self._unless_silent(reads.replicas),
            through=through,
            first_entry=first_entry,
            last_entry=last_entry,
        )
        last, size = first_entry - 1, 0
        async with aclosing(self._walk(copies)) as parts:
            async for part in parts:
                if not isinstance(part, Gap):
                    last, size = part.last_entry, size + len(part.payload)
                elif not over_gaps:
                    break
        return last, size, reads

    async def _before(self, proven: int, length_bytes: int) -> tuple[int, int]:
        """Returns the end when no survivor has an entry after the proven ones: the last proven entry, or an earlier
        entry if the survivors lack that one."""
        first = self._fragment.first_entry
        if proven < first or (await self._walked(proven, proven))[0] == proven:
            return proven, length_bytes
        last, size, _ = await self._walked(first, proven - 1, over_gaps=True)
        return last, self._fragment.length_before + size

    # --- answers ------------------------------------------------------------------------------

    def _heard(self, bookie: BookieRef, reply: LacReply) -> None:
        """Counts even a bookie in limbo as fenced, because its copies are verified. Only its statement that it lacks an
        entry proves nothing."""
        if reply.latest is not None and reply.latest.is_ahead_of(self.record):
            raise LedgerRecoveryFailed(self.record.ledger_id, OLDER.format(bookie))
        if bookie in self._fragment.ensemble:
            self._fencing.answered(self._fragment.ensemble.index(bookie), reply)

    def _refused(self, bookie: BookieRef, reply: LacReply | ReadReply, why: str) -> None:
        if isinstance(reply, LacReply) and reply.status in GONE:
            self.silent[bookie.bookie_id] = why
            self.gone.add(bookie)
            return
        if reply.status is Status.UNAUTHORIZED:
            raise Unauthorized(self.record.ledger_id, by_bookie=True, why=reply.detail)
        what = "fenced" if self._fence else "read"
        raise LedgerError(
            f"bookie {bookie} is live, but could not be {what}: {why}. Its entries must not be lost: try again "
            "when the bookie is healthy, or stop it"
        )
