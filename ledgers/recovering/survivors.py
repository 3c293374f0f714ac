"""Where the survivors of a ledger's last ensemble end: what its bookies that still answer have, proven or not.

The walk is that of a recovery (rule R3), over the same answers. It differs where a recovery fails: an entry of which no
survivor has a copy, and of which nobody can tell whether it was confirmed, is where the survivors end. Whether a
recovery would have come to an end is told, too.

Where the record is older than the ledger (rule W8), bookies outside that ensemble hold the ledger as well. They are
fenced, too, and what they prove counts as confirmed. What they have counts where enough of the ensemble answer for a
recovery to write it back; else it is only told that they have it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from bookie.wire import NO_ENTRY, LacReply, LacStatement, ReadReply, Status, status_text
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..authorized import Keys
from ..cluster import Cluster
from ..errors import BookieUnavailable, LedgerError, Unauthorized
from ..protocol.fenced_reads import FencedReads, Verdict
from ..protocol.proven_end import HOLDS_SOMETHING, ProvenEnd, may_be_read, outdates
from ..protocol.quorum import Outcome
from ..protocol.striping import Striping
from .accepted_metadata import RevisionCheck
from .requests import LedgerRequests
from .retries import with_tries
from .witnesses import Witnesses

log = logging.getLogger(__name__)

READ_AHEAD_ENTRIES = 4096
"""How far past the first undecided entry bookies are read."""

GONE = (Status.WRONG_INCARNATION, Status.WRONG_IDENTITY)
"""The bookie that the record names is not there any more, or what it had of this ledger is not."""


@dataclass(frozen=True, slots=True)
class SurvivingEnd:
    """`proven_through`: the last entry that is proven to be confirmed. `last_entry` and `length_bytes`: where the
    survivors end. `missing`: those of the last ensemble that did not answer, and why; `gone`: those of them in whose
    place another one answers, or which hold another ledger of this id. `unreadable`: entries of the last fragment up to
    that end of which only those have copies. `behind`: what each bookie says of the entry at which the walk ended.
    `is_provable`: a recovery that heard the same would close the ledger, and lose nothing. `elsewhere`:
    bookies outside the last ensemble that show the record to be older than the ledger, and what they prove to be
    confirmed. `takes_recovery`: what these have counts, and is to be written back."""

    proven_through: int
    last_entry: int
    length_bytes: int
    missing: dict[BookieRef, str] = field(default_factory=dict)
    gone: frozenset[BookieRef] = frozenset()
    unreadable: int = 0
    behind: str = ""
    is_provable: bool = False
    takes_recovery: bool = False
    elsewhere: dict[BookieRef, int] = field(default_factory=dict)


async def find_end(cluster: Cluster, record: LedgerRecord, keys: Keys, *, fence: bool) -> SurvivingEnd:
    """Asks every bookie of the last ensemble, and all others whether they hold the ledger. With `fence` each that holds
    it refuses the ledger's writer before it answers.

    Raises Unauthorized, MetadataError, LedgerError for a bookie that answers and does not do it, and
    LedgerRecoveryFailed where one has seen the metadata at a later revision.
    """
    return await _Survivors(cluster, record, keys, fence=fence).end()


class _Survivors:
    """One look at them."""

    def __init__(self, cluster: Cluster, record: LedgerRecord, keys: Keys, *, fence: bool) -> None:
        self._cluster = cluster
        self._record = record
        self._digester, key = keys
        self._requests = LedgerRequests(record, key, cluster.config.page_bytes)
        self._fence = fence
        self._fragment = record.fragments[-1]
        self._sources: list[BookieRef] = []
        self._holders: list[BookieRef] = []
        self._striping = Striping(record.shape)
        self._vouching: set[int] = set()
        self._missing: dict[int, str] = {}
        self._gone: set[int] = set()
        self._lac: LacStatement | None = None
        self._proven = ProvenEnd(self._digester)
        self._elsewhere: dict[BookieRef, int] = {}
        self._behind = ""
        self._revisions = RevisionCheck(cluster, record.ledger_id)

    async def end(self) -> SurvivingEnd:
        members = range(len(self._fragment.ensemble))
        await asyncio.gather(self._ask_others(), *(self._ask_lac(n) for n in members))
        while True:
            is_covered = self._is_covered
            end = await self._end_of(is_outdated=is_covered and bool(self._elsewhere))
            if is_covered is self._is_covered:  # one may have failed while it was read
                return end

    @property
    def _is_covered(self) -> bool:
        """Whether so many of the ensemble answer that a recovery can walk."""
        return self._striping.coverage.outcome(self._vouching, self._missing) is Outcome.WON

    async def _end_of(self, *, is_outdated: bool) -> SurvivingEnd:
        """With `is_outdated` by what all others have, too: a recovery writes that back."""
        ensemble = self._fragment.ensemble
        self._sources = [*ensemble, *(self._holders if is_outdated else ())]
        first, length = self._first_unproven(is_outdated=is_outdated)
        last, more_bytes, verdict = await self._walk(first)
        proven = max(first - 1, self._proven.last_entry)
        is_provable = self._is_covered and verdict is Verdict.ABSENT and last >= proven
        length += more_bytes
        if not is_provable and last == first - 1:
            last, length = await self._before(last, length)
        return SurvivingEnd(
            proven,
            last,
            length,
            missing={ensemble[n]: why for n, why in sorted(self._missing.items())},
            gone=frozenset(ensemble[n] for n in self._gone),
            unreadable=self._striping.held_by_none_but(self._missing, self._fragment.first_entry, last),
            behind=self._behind,
            is_provable=is_provable,
            takes_recovery=is_outdated,
            elsewhere=self._elsewhere,
        )

    def _first_unproven(self, *, is_outdated: bool) -> tuple[int, int]:
        """The entry behind the last one that the record or the ensemble proves to be confirmed, and the length before.

        With `is_outdated` the first entry of the last fragment: see `Recovery`.
        """
        first = self._fragment.first_entry
        if is_outdated or self._lac is None or self._lac.last_entry < first:
            return first, self._fragment.length_before
        return self._lac.last_entry + 1, self._lac.length_bytes

    # --- the walk -----------------------------------------------------------------------------

    async def _walk(self, first_entry: int) -> tuple[int, int, Verdict]:
        """The entries without a gap from this one on: the last, their bytes, and what is said of the one behind."""
        reads = self._reads(first_entry)
        at, size = first_entry, 0
        while True:
            match await self._verdict(reads, at):
                case Verdict.PRESENT:
                    size += _size_of(reads, at)
                    at += 1
                    reads.forget_before(at)
                case verdict:
                    self._behind = f"entry {at}: {reads.describe(at)}"
                    return at - 1, size, verdict

    async def _before(self, proven: int, length_bytes: int) -> tuple[int, int]:
        """Where they end if they have nothing past what is proven: there, or before it where they lack the last."""
        first = self._fragment.first_entry
        if proven < first or await self._verdict(self._reads(proven), proven) is Verdict.PRESENT:
            return proven, length_bytes
        reads, last, length, size = self._reads(first), first - 1, self._fragment.length_before, 0
        for entry_id in range(first, proven):
            if await self._verdict(reads, entry_id) is Verdict.PRESENT:
                size += _size_of(reads, entry_id)
                last = entry_id
            reads.forget_before(entry_id + 1)
        return last, length + size

    def _reads(self, first_entry: int) -> FencedReads:
        names = [str(bookie) for bookie in self._sources]
        size = len(self._fragment.ensemble)
        reads = FencedReads(self._striping, tuple(names[:size]), first_entry, self._digester)
        for witness in names[size:]:
            reads.add_witness(witness, first_entry)
        for position, why in self._missing.items():
            reads.failed(position, why)
        return reads

    async def _verdict(self, reads: FencedReads, entry_id: int) -> Verdict:
        """What is said of the entry once it is decided, or all have spoken of it."""
        while (verdict := reads.verdict(entry_id, hears_all=bool(self._elsewhere))) is Verdict.OPEN:
            silent = [
                n
                for n, one in enumerate(reads.replicas)
                if not one.is_done_with(entry_id) and self._is_asked(n, entry_id)
            ]
            await asyncio.gather(*(self._read(reads, n, entry_id) for n in silent))
        return verdict

    def _is_asked(self, position: int, entry_id: int) -> bool:
        return position >= len(self._fragment.ensemble) or self._striping.holds(position, entry_id)

    # --- asking -------------------------------------------------------------------------------

    async def _ask_lac(self, position: int) -> None:
        bookie = self._fragment.ensemble[position]
        request = self._requests.lac(bookie, fence=self._fence)
        try:
            reply = await with_tries(self._cluster.config, lambda: self._cluster.fence(bookie, request))
        except BookieUnavailable as error:
            self._missing[position] = error.why
        else:
            await self._revisions.hear(bookie, reply)
            self._take_lac(position, reply)

    def _take_lac(self, position: int, reply: LacReply) -> None:
        """A bookie in limbo is fenced, and what it has is verified; only what it lacks proves nothing."""
        if reply.status in GONE:
            self._missing[position] = status_text(reply)
            self._gone.add(position)
            return
        if reply.status not in (Status.OK, Status.NO_SUCH_LEDGER, Status.UNKNOWN):
            raise self._refused(self._fragment.ensemble[position], reply)
        if reply.status is not Status.UNKNOWN:
            self._vouching.add(position)
        proven = self._proven.hear(self._fragment.ensemble[position], reply.last_add_confirmed)
        if self._lac is None or proven > self._lac.last_entry:
            self._lac = reply.last_add_confirmed if proven > NO_ENTRY else None

    async def _ask_others(self) -> None:
        """Hears all other bookies; of an older record those that hold the ledger are read, too (see `_end_of`)."""
        replies = await Witnesses(self._cluster, self._record, self._requests).ask()
        for bookie, reply in replies.items():
            await self._revisions.hear(bookie, reply)
            self._hear_other(bookie, reply)
            if may_be_read(self._record, reply):
                self._holders.append(bookie)
        if self._fence:
            await asyncio.gather(*(self._fence_other(bookie) for bookie in tuple(self._holders)))

    def _hear_other(self, bookie: BookieRef, reply: LacReply) -> None:
        proven = self._proven.hear(bookie, reply.last_add_confirmed)
        if outdates(self._record, proven):
            self._elsewhere[bookie] = proven

    async def _fence_other(self, bookie: BookieRef) -> None:
        """Raises LedgerError for one that cannot be fenced, where its writer may be going on with it."""
        request = self._requests.lac(bookie, fence=True)
        try:
            reply = await with_tries(self._cluster.config, lambda: self._cluster.fence(bookie, request))
            why = "" if reply.status in HOLDS_SOMETHING else status_text(reply)
        except BookieUnavailable as error:
            why = error.why
        if not why:
            self._hear_other(bookie, reply)
        elif bookie in self._elsewhere:
            raise self._failed(bookie, why)
        else:
            line = "bookie %s, which holds an earlier part of ledger %d, is not fenced: %s"
            log.info(line, bookie, request.ledger_id, why, extra={"ledger": request.ledger_id})
            self._holders.remove(bookie)

    async def _read(self, reads: FencedReads, position: int, first_entry: int) -> None:
        bookie = self._sources[position]
        reads.replicas[position].asked_from = first_entry
        last_entry = first_entry + READ_AHEAD_ENTRIES - 1
        request = self._requests.page(bookie, first_entry, last_entry, fence=self._fence)
        try:
            reply = await with_tries(self._cluster.config, lambda: self._cluster.read(bookie, request))
        except BookieUnavailable as error:
            if position >= len(self._fragment.ensemble):
                raise self._failed(bookie, error.why) from None
            self._missing[position] = error.why
            reads.failed(position, error.why)
        else:
            self._proven.hear(bookie, reply.last_add_confirmed)
            reads.answered(position, reply)
            if why := reads.replicas[position].failure:
                raise self._refused(bookie, reply, why)

    def _refused(self, bookie: BookieRef, reply: LacReply | ReadReply, why: str = "") -> LedgerError:
        if reply.status is Status.UNAUTHORIZED:
            return Unauthorized(self._record.ledger_id, by_bookie=True, why=reply.detail)
        return self._failed(bookie, why or status_text(reply))

    def _failed(self, bookie: BookieRef, why: str) -> LedgerError:
        what = "fenced" if self._fence else "read"
        return LedgerError(
            f"bookie {bookie} lives, and could not be {what}: {why}; what it holds must not be given up: try again "
            "when it is well, or stop it"
        )


def _size_of(reads: FencedReads, entry_id: int) -> int:
    copy = reads.copy_of(entry_id)
    assert copy is not None
    return len(copy[0])
