"""Where the survivors of a ledger's last ensemble end: what its bookies that still answer have, proven or not.

The walk is that of a recovery (rule R3), over the same answers. It differs where a recovery fails: an entry of which no
survivor has a copy, and of which nobody can tell whether it was confirmed, is where the survivors end. Whether a
recovery would have come to an end is told, too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from bookie.wire import (
    NO_ENTRY,
    LacReply,
    LacRequest,
    LacStatement,
    ReadReply,
    ReadRequest,
    Status,
    status_text,
)
from bookie.wire.credentials import Purpose
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..authorized import Keys
from ..cluster import Cluster
from ..errors import BookieUnavailable, LedgerError, Unauthorized
from ..protocol.fenced_reads import FencedReads, Verdict
from ..protocol.quorum import Outcome
from ..protocol.striping import Striping
from .retries import with_tries

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
    `is_provable`: a recovery that heard the same would close the ledger, and lose nothing."""

    proven_through: int
    last_entry: int
    length_bytes: int
    missing: dict[BookieRef, str] = field(default_factory=dict)
    gone: frozenset[BookieRef] = frozenset()
    unreadable: int = 0
    behind: str = ""
    is_provable: bool = False


async def find_end(cluster: Cluster, record: LedgerRecord, keys: Keys, *, fence: bool) -> SurvivingEnd:
    """Asks every bookie of the last ensemble. With `fence` each that answers refuses the ledger's writer before.

    Raises Unauthorized, and LedgerError for a bookie that answers and does not do it.
    """
    return await _Survivors(cluster, record, keys, fence=fence).end()


class _Survivors:
    """One look at them."""

    def __init__(self, cluster: Cluster, record: LedgerRecord, keys: Keys, *, fence: bool) -> None:
        self._cluster = cluster
        self._record = record
        self._digester, self._key = keys
        self._fence = fence
        self._fragment = record.fragments[-1]
        self._striping = Striping(record.shape)
        self._vouching: set[int] = set()
        self._missing: dict[int, str] = {}
        self._gone: set[int] = set()
        self._lac: LacStatement | None = None
        self._behind = ""

    async def end(self) -> SurvivingEnd:
        await asyncio.gather(*(self._ask_lac(n) for n in range(len(self._fragment.ensemble))))
        proven, length = self._proven()
        last, more_bytes, verdict = await self._walk(proven + 1)
        is_covered = self._striping.coverage.outcome(self._vouching, self._missing) is Outcome.WON
        is_provable = is_covered and verdict is Verdict.ABSENT
        length += more_bytes
        if not is_provable and last == proven:
            last, length = await self._before(proven, length)
        ensemble = self._fragment.ensemble
        missing = {ensemble[n]: why for n, why in sorted(self._missing.items())}
        gone = frozenset(ensemble[n] for n in self._gone)
        unreadable = self._striping.held_by_none_but(self._missing, self._fragment.first_entry, last)
        return SurvivingEnd(proven, last, length, missing, gone, unreadable, self._behind, is_provable)

    def _proven(self) -> tuple[int, int]:
        """The last entry that the record or a bookie proves to be confirmed, and the length up to it."""
        by_record = self._fragment.first_entry - 1
        if self._lac is not None and self._lac.last_entry > by_record:
            return self._lac.last_entry, self._lac.length_bytes
        return by_record, self._fragment.length_before

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
        names = tuple(str(bookie) for bookie in self._fragment.ensemble)
        reads = FencedReads(self._striping, names, first_entry, self._digester)
        for position, why in self._missing.items():
            reads.failed(position, why)
        return reads

    async def _verdict(self, reads: FencedReads, entry_id: int) -> Verdict:
        """What is said of the entry once it is decided, or all have spoken of it."""
        while (verdict := reads.verdict(entry_id)) is Verdict.OPEN:
            silent = [
                n
                for n, one in enumerate(reads.replicas)
                if not one.failure and one.covered_through < entry_id and self._striping.holds(n, entry_id)
            ]
            await asyncio.gather(*(self._read(reads, n, entry_id) for n in silent))
        return verdict

    # --- asking -------------------------------------------------------------------------------

    async def _ask_lac(self, position: int) -> None:
        bookie = self._fragment.ensemble[position]
        request = LacRequest(
            bookie.incarnation,
            self._record.ledger_id,
            fence=self._fence,
            credential=self._key.credential(self._purpose, bookie.incarnation),
            identity=self._record.identity,
        )
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
            raise self._refused(position, reply)
        if reply.status is not Status.UNKNOWN:
            self._vouching.add(position)
        statement = reply.last_add_confirmed
        if statement is not None and self._digester.is_valid_lac(statement):
            best = NO_ENTRY if self._lac is None else self._lac.last_entry
            self._lac = statement if statement.last_entry > best else self._lac

    async def _read(self, reads: FencedReads, position: int, first_entry: int) -> None:
        bookie = self._fragment.ensemble[position]
        reads.replicas[position].asked_from = first_entry
        request = ReadRequest(
            bookie.incarnation,
            self._record.ledger_id,
            first_entry,
            first_entry + READ_AHEAD_ENTRIES - 1,
            self._cluster.config.page_bytes,
            fence=self._fence,
            credential=self._key.credential(self._purpose, bookie.incarnation),
            identity=self._record.identity,
        )
        try:
            reply = await with_tries(self._cluster.config, lambda: self._cluster.read(bookie, request))
        except BookieUnavailable as error:
            self._missing[position] = error.why
            reads.failed(position, error.why)
        else:
            reads.answered(position, reply)
            if why := reads.replicas[position].failure:
                raise self._refused(position, reply, why)

    @property
    def _purpose(self) -> Purpose:
        return Purpose.FENCE if self._fence else Purpose.READ

    def _refused(self, position: int, reply: LacReply | ReadReply, why: str = "") -> LedgerError:
        if reply.status is Status.UNAUTHORIZED:
            return Unauthorized(self._record.ledger_id, by_bookie=True, why=reply.detail)
        what, why = "fenced" if self._fence else "read", why or status_text(reply)
        return LedgerError(
            f"bookie {self._fragment.ensemble[position]} lives, and could not be {what}: {why}; what "
            "it holds must not be given up: try again when it is well"
        )


def _size_of(reads: FencedReads, entry_id: int) -> int:
    copy = reads.copy_of(entry_id)
    assert copy is not None
    return len(copy[0])
