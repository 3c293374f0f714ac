"""Where the survivors of a ledger's last ensemble end: what its bookies that still answer have, proven or not.

The walk is that of a recovery (rule R3), over the same answers. It differs where a recovery fails: an entry of which no
survivor has a copy, and of which nobody can tell whether it was confirmed, is where the survivors end. Whether a
recovery would have come to an end is told, too.

Where the record may be older than the ledger (rule W8), it names bookies outside that ensemble that hold more. They are
fenced, too, and what they prove counts as confirmed. What they have counts where enough of the ensemble answer for a
recovery to write it back; else it is only told that they have it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from bookie.wire import NO_ENTRY, LacReply, LacStatement, ReadReply, Status, status_text
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..authorized import Keys
from ..cluster import Cluster
from ..errors import BookieUnavailable, LedgerError, Unauthorized
from ..protocol.fenced_reads import FencedReads, Verdict
from ..protocol.quorum import Outcome
from ..protocol.striping import Striping
from .requests import LedgerRequests
from .retries import with_tries

READ_AHEAD_ENTRIES = 4096
"""How far past the first undecided entry bookies are read."""

GONE = (Status.WRONG_INCARNATION, Status.WRONG_IDENTITY)
"""The bookie that the record names is not there any more, or what it had of this ledger is not."""


@dataclass(frozen=True, slots=True)
class SurvivingEnd:
    """`proven_through`: the last entry that is proven to be confirmed. `last_entry` and `length_bytes`: where the
    survivors end. `missing`: those asked that did not answer, and why; `gone`: those of them in whose place another one
    answers, or which hold another ledger of this id. `unreadable`: entries of the last fragment up to that end of which
    only those have copies. `behind`: what each bookie says of the entry at which the walk ended. `is_provable`: a
    recovery that heard the same would close the ledger, and lose nothing. `elsewhere`: bookies outside the last
    ensemble that hold more than the record knows, and what they prove to be confirmed. `takes_recovery`: what these
    have counts, and is to be written back."""

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
    """Asks every bookie of the last ensemble, and those that hold more than the record knows. With `fence` each refuses
    the ledger's writer before it answers.

    Raises Unauthorized, MetadataError, and LedgerError for a bookie that answers and does not do it.
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
        self._size = record.shape.ensemble_size
        self._bookies = (*self._fragment.ensemble, *record.also_at)
        self._striping = Striping(record.shape)
        self._vouching: set[int] = set()
        self._missing: dict[int, str] = {}
        self._gone: set[int] = set()
        self._lac: LacStatement | None = None
        self._proven: dict[int, int] = {}
        self._behind = ""

    async def end(self) -> SurvivingEnd:
        await asyncio.gather(*(self._ask_lac(n) for n in range(len(self._bookies))))
        while True:
            is_covered = self._is_covered
            end = await self._end_of(is_outdated=is_covered and len(self._bookies) > self._size)
            if is_covered is self._is_covered:  # one may have failed while it was read
                return end

    @property
    def _is_covered(self) -> bool:
        """Whether so many of the ensemble answer that a recovery can walk."""
        return self._striping.coverage.outcome(self._vouching, self._missing) is Outcome.WON

    async def _end_of(self, *, is_outdated: bool) -> SurvivingEnd:
        """With `is_outdated` by what all others have, too: a recovery writes that back."""
        names = tuple(map(str, self._bookies if is_outdated else self._fragment.ensemble))
        first, length = self._first_unproven(is_outdated=is_outdated)
        last, more_bytes, verdict = await self._walk(names, first)
        proven = max(first - 1, *self._proven.values(), NO_ENTRY)
        is_provable = self._is_covered and verdict is Verdict.ABSENT and last >= proven
        length += more_bytes
        if not is_provable and last == first - 1:
            last, length = await self._before(names, last, length)
        return SurvivingEnd(
            proven,
            last,
            length,
            missing={self._bookies[n]: why for n, why in sorted(self._missing.items())},
            gone=frozenset(self._bookies[n] for n in self._gone),
            unreadable=self._striping.held_by_none_but(self._missing, self._fragment.first_entry, last),
            behind=self._behind,
            is_provable=is_provable,
            takes_recovery=is_outdated,
            elsewhere={self._bookies[n]: proven for n, proven in self._proven.items() if n >= self._size},
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

    async def _walk(self, names: tuple[str, ...], first_entry: int) -> tuple[int, int, Verdict]:
        """The entries without a gap from this one on: the last, their bytes, and what is said of the one behind."""
        reads = self._reads(names, first_entry)
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

    async def _before(self, names: tuple[str, ...], proven: int, length_bytes: int) -> tuple[int, int]:
        """Where they end if they have nothing past what is proven: there, or before it where they lack the last."""
        first = self._fragment.first_entry
        if proven < first or await self._verdict(self._reads(names, proven), proven) is Verdict.PRESENT:
            return proven, length_bytes
        reads, last, length, size = self._reads(names, first), first - 1, self._fragment.length_before, 0
        for entry_id in range(first, proven):
            if await self._verdict(reads, entry_id) is Verdict.PRESENT:
                size += _size_of(reads, entry_id)
                last = entry_id
            reads.forget_before(entry_id + 1)
        return last, length + size

    def _reads(self, names: tuple[str, ...], first_entry: int) -> FencedReads:
        reads = FencedReads(self._striping, names, first_entry, self._digester)
        for position, why in self._missing.items():
            if position < len(names):
                reads.failed(position, why)
        return reads

    async def _verdict(self, reads: FencedReads, entry_id: int) -> Verdict:
        """What is said of the entry once it is decided, or all have spoken of it."""
        while (verdict := reads.verdict(entry_id)) is Verdict.OPEN:
            silent = [
                n
                for n, one in enumerate(reads.replicas)
                if not one.is_done_with(entry_id) and self._is_asked(n, entry_id)
            ]
            await asyncio.gather(*(self._read(reads, n, entry_id) for n in silent))
        return verdict

    def _is_asked(self, position: int, entry_id: int) -> bool:
        return position >= self._size or self._striping.holds(position, entry_id)

    # --- asking -------------------------------------------------------------------------------

    async def _ask_lac(self, position: int) -> None:
        bookie = self._bookies[position]
        request = self._requests.lac(bookie, fence=self._fence)
        try:
            reply = await with_tries(self._cluster.config, lambda: self._cluster.fence(bookie, request))
        except BookieUnavailable as error:
            self._missing[position] = error.why
        else:
            self._take_lac(position, reply)

    def _take_lac(self, position: int, reply: LacReply) -> None:
        """A bookie in limbo is fenced, and what it has is verified; only what it lacks proves nothing."""
        if reply.status in GONE:
            self._missing[position] = status_text(reply)
            self._gone.add(position)
            return
        if reply.status not in (Status.OK, Status.NO_SUCH_LEDGER, Status.UNKNOWN):
            raise self._refused(self._bookies[position], reply)
        if reply.status is not Status.UNKNOWN:
            self._vouching.add(position)
        self._hear(position, reply.last_add_confirmed)
        if position < self._size and self._proven[position] > (
            self._lac.last_entry if self._lac else NO_ENTRY
        ):
            self._lac = reply.last_add_confirmed

    def _hear(self, position: int, statement: LacStatement | None) -> None:
        """Takes what the bookie proves to be confirmed."""
        is_valid = statement is not None and self._digester.is_valid_lac(statement)
        proven = statement.last_entry if statement is not None and is_valid else NO_ENTRY
        self._proven[position] = max(proven, self._proven.get(position, NO_ENTRY))

    async def _read(self, reads: FencedReads, position: int, first_entry: int) -> None:
        bookie = self._bookies[position]
        reads.replicas[position].asked_from = first_entry
        last_entry = first_entry + READ_AHEAD_ENTRIES - 1
        request = self._requests.page(bookie, first_entry, last_entry, fence=self._fence)
        try:
            reply = await with_tries(self._cluster.config, lambda: self._cluster.read(bookie, request))
        except BookieUnavailable as error:
            self._missing[position] = error.why
            reads.failed(position, error.why)
        else:
            self._hear(position, reply.last_add_confirmed)
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
