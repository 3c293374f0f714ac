"""Where the survivors of a ledger's last ensemble end: what its bookies that still answer have, proven or not.

An entry of which no survivor has a copy, and of which nobody can tell whether it was confirmed, is where they end. A
recovery (rule R3) fails there; whether one would have come to an end is told, too.

Where the record may be older than the ledger (rule W8), it names bookies outside that ensemble that hold more. They are
fenced, too, and what they prove counts as confirmed. Where one of those asked has noted a later state of the ledger,
nothing is given up before the record is brought up to it.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from bookie.wire import LacReply, LacStatement, ReadReply, Status
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..authorized import Keys
from ..cluster import Cluster
from ..errors import LedgerError, LedgerRecoveryFailed, Unauthorized
from ..protocol.fencing import OLDER
from ..protocol.quorum import Outcome
from ..protocol.striping import Striping
from .held_copies import ENTRY_ID_MAX, CopyHolder, Gap, HeldCopies
from .ledger_calls import Holders

GONE = (Status.WRONG_INCARNATION, Status.WRONG_IDENTITY)
"""The bookie that the record names is not there any more, or what it had of this ledger is not."""


class Survivors(Holders):
    """One look at them: every bookie of the last ensemble is asked, and those that hold more than the record knows.
    With `fence` each refuses the ledger's writer before it answers.

    `last_entry` and `length_bytes`: where they end. `silent`: those that did not answer, and why; `gone`: those of them
    in whose place another one answers, or which hold another ledger of this id. `unreadable`: entries of the last
    fragment up to that end of which only those have copies. `behind`: what each bookie says of the entry at which the
    walk ended. `is_provable`: a recovery that heard the same would close the ledger, and lose nothing.
    """

    def __init__(self, cluster: Cluster, record: LedgerRecord, keys: Keys, *, fence: bool) -> None:
        super().__init__(cluster, record, keys, fence=fence)
        self.gone: set[BookieRef] = set()
        self._fence = fence
        self._fragment = record.fragments[-1]
        self._ensemble = list(self._fragment.ensemble)
        self._striping = Striping(record.shape)
        self._vouching: set[int] = set()
        self._lac: LacStatement | None = None

    async def find_end(self) -> None:
        """Raises Unauthorized, MetadataError, LedgerError for a bookie that answers and does not do what it is asked,
        and LedgerRecoveryFailed where one that is fenced knows a later state of the ledger."""
        await asyncio.gather(*(self._ask_lac(one) for one in (*self._ensemble, *self.record.also_at)))
        first, length = self._first_unproven()
        last, more_bytes, holders = await self._walked(first)
        self.behind = f"entry {last + 1}: {self._described(last + 1, holders)}"
        is_absent = self._is_absent(last + 1, holders)
        self.is_provable = is_absent and last >= self.proven_through and not self.record.also_at
        self.last_entry, self.length_bytes = last, length + more_bytes
        if not self.is_provable and last == first - 1:
            self.last_entry, self.length_bytes = await self._before(last, length)
        first = self._fragment.first_entry
        self.unreadable = self._striping.held_by_none_but(self._missing, first, self.last_entry)

    @property
    def missing(self) -> dict[BookieRef, str]:
        """`silent` by bookie."""
        return {self._refs[name]: why for name, why in self.silent.items()}

    @property
    def _missing(self) -> list[int]:
        """The positions of the ensemble that do not answer."""
        return [n for n, one in enumerate(self._ensemble) if one.bookie_id in self.silent]

    def _first_unproven(self) -> tuple[int, int]:
        """The entry behind the last one that the record or the ensemble proves, and the length before it."""
        first = self._fragment.first_entry
        if self._lac is None or self._lac.last_entry < first:
            return first, self._fragment.length_before
        return self._lac.last_entry + 1, self._lac.length_bytes

    # --- the walk -----------------------------------------------------------------------------

    async def _walked(
        self, first_entry: int, last_entry: int = ENTRY_ID_MAX, *, over_gaps: bool = False
    ) -> tuple[int, int, list[CopyHolder]]:
        """The last entry that is there before the first gap, or of all, the bytes from the first one on, and who was
        asked."""
        holders = self._holders(self._ensemble)
        through = last_entry if over_gaps else first_entry - 1
        copies = HeldCopies(
            holders, self._digester, through=through, first_entry=first_entry, last_entry=last_entry
        )
        last, size = first_entry - 1, 0
        async with aclosing(self._walk(copies)) as parts:
            async for part in parts:
                if not isinstance(part, Gap):
                    last, size = part.last_entry, size + len(part.payload)
                elif not over_gaps:
                    break
        return last, size, holders

    async def _before(self, proven: int, length_bytes: int) -> tuple[int, int]:
        """Where they end if they have nothing past what is proven: there, or before it where they lack the last."""
        first = self._fragment.first_entry
        if proven < first or (await self._walked(proven, proven))[0] == proven:
            return proven, length_bytes
        last, size, _ = await self._walked(first, proven - 1, over_gaps=True)
        return last, self._fragment.length_before + size

    def _is_absent(self, entry_id: int, holders: list[CopyHolder]) -> bool:
        """Whether a recovery would end the ledger before this entry, of which all were asked."""
        is_covered = self._striping.coverage.outcome(self._vouching, self._missing) is Outcome.WON
        quorum = self._striping.absent_quorums[entry_id % len(self._ensemble)]
        lacking = [n for n in quorum.voters if not _why_unproven(holders[n], entry_id)]
        return is_covered and quorum.outcome(lacking) is Outcome.WON

    def _described(self, entry_id: int, holders: list[CopyHolder]) -> str:
        asked = [holders[n] for n in self._striping.write_set(entry_id)]
        return ", ".join(
            f"{one.name}: {_why_unproven(one, entry_id) or 'has no such entry'}" for one in asked
        )

    # --- answers ------------------------------------------------------------------------------

    def _answered(self, bookie: BookieRef, reply: LacReply) -> None:
        """A bookie in limbo is fenced, and what it has is verified; only what it lacks proves nothing."""
        if reply.latest is not None and reply.latest.is_ahead_of(self.record):
            raise LedgerRecoveryFailed(self.record.ledger_id, OLDER.format(bookie))
        if bookie not in self._ensemble:
            return
        if reply.status is not Status.UNKNOWN:
            self._vouching.add(self._ensemble.index(bookie))
        told = reply.last_add_confirmed
        if told is not None and self._digester.is_valid_lac(told):
            self._lac = max(told, self._lac or told, key=lambda one: one.last_entry)

    def _refused(self, bookie: BookieRef, reply: LacReply | ReadReply, why: str) -> None:
        if isinstance(reply, LacReply) and reply.status in GONE:
            self.silent[bookie.bookie_id] = why
            self.gone.add(bookie)
            return
        if reply.status is Status.UNAUTHORIZED:
            raise Unauthorized(self.record.ledger_id, by_bookie=True, why=reply.detail)
        what = "fenced" if self._fence else "read"
        raise LedgerError(
            f"bookie {bookie} lives, and could not be {what}: {why}; what it holds must not be given up: try again "
            "when it is well, or stop it"
        )


def _why_unproven(holder: CopyHolder, entry_id: int) -> str:
    """Why it cannot be told of one that gave no copy that it lacks the entry (F11, F12); "" where it can."""
    return holder.failure or ("its copy is damaged" if holder.is_unreadable(entry_id) else "")
