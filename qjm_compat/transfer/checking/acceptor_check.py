"""Checks a single acceptor: its state, its records, and its ledgers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from ledgers import LedgerError
from metadata.records.journal_record import SegmentRecord
from metadata.records.ledger_record import LedgerRecord

from ...acceptor.acceptor_ledgers import (
    ACCEPTOR_OF_LEDGER,
    JOURNAL_OF_LEDGER,
    SEGMENT_OF_LEDGER,
    AcceptorLedgers,
)
from ...acceptor.programs.state_transitions import is_behind
from ...batch import Batch
from ...edits import EditLogError, check_batch, iter_ops
from ...errors import JournalError
from ..inspection.acceptor_seen import AcceptorSeen
from ..inspection.inspector import JournalInspector
from .journal_findings import CopyFound, JournalFindings


def check_state(seen: AcceptorSeen) -> Iterator[str]:
    """Yields one sentence for each condition in the acceptor's state that is impossible, or that must not last."""
    yield from _epochs(seen)
    yield from _segments(seen)
    yield from _last_finalized(seen)
    yield from _accepted(seen)
    yield from _behind(seen)


def _epochs(seen: AcceptorSeen) -> Iterator[str]:
    state = seen.state
    if state.last_writer_epoch > state.last_promised_epoch:
        yield (
            f"its writer has epoch {state.last_writer_epoch}, but the highest promised epoch is "
            f"{state.last_promised_epoch}"
        )
    epochs = [(s.start_txid, s.writer_epoch) for s in state.segments]
    epochs += [(s.start_txid, s.writer_epoch) for s in seen.finalized]
    for start_txid, epoch in epochs:
        if epoch > state.last_promised_epoch:
            yield (
                f"segment {start_txid} is of epoch {epoch}, but the highest promised epoch is "
                f"{state.last_promised_epoch}"
            )


def _segments(seen: AcceptorSeen) -> Iterator[str]:
    records = {record.start_txid: record for record in seen.finalized}
    starts: set[int] = set()
    for segment in seen.state.segments:
        if segment.start_txid in starts:
            yield f"segment {segment.start_txid} occurs twice in its state"
        starts.add(segment.start_txid)
        if segment.end_txid is not None and segment.end_txid < segment.start_txid:
            yield f"segment {segment.start_txid} ends at txid {segment.end_txid}"
        record = records.get(segment.start_txid)
        if record is None:
            continue
        if not segment.finalized:
            yield f"segment {segment.start_txid} has a record, but is not finalized"
        elif (record.ledger_id, record.end_txid) != (segment.ledger_id, segment.end_txid):
            yield (
                f"segment {segment.start_txid} ends at txid {segment.end_txid} of ledger {segment.ledger_id} by its "
                f"state, and at txid {record.end_txid} of ledger {record.ledger_id} by its record"
            )


def _last_finalized(seen: AcceptorSeen) -> Iterator[str]:
    """Checks that the last segment finalized at this acceptor still exists there, unless it was purged."""
    start_txid = seen.state.last_finalized_start
    if start_txid >= max(1, seen.state.purged_below) and not seen.has_final(start_txid):
        yield f"segment {start_txid} is the last finalized one, but is missing"


def _accepted(seen: AcceptorSeen) -> Iterator[str]:
    """Checks that the acceptor has each segment that it accepted. It must have the segment, because accepting a segment
    and recording its ledger are a single change."""
    ends = {segment.start_txid: segment.end_txid for segment in seen.state.segments}
    ends |= {record.start_txid: record.end_txid for record in seen.finalized}
    for accepted in seen.state.accepted:
        if accepted.epoch > seen.state.last_promised_epoch:
            yield (
                f"a recovery of segment {accepted.start_txid} was accepted in epoch {accepted.epoch}, which was never "
                f"promised"
            )
        if ends.get(accepted.start_txid) != accepted.end_txid:
            yield (
                f"segment {accepted.start_txid} was accepted to end at txid {accepted.end_txid}, but "
                f"ends at {ends.get(accepted.start_txid)}"
            )


def _behind(seen: AcceptorSeen) -> Iterator[str]:
    """Reports an acceptor that joined while a segment was in progress and therefore does not vote on it."""
    if is_behind(seen.state, (record.start_txid for record in seen.finalized)):
        yield (
            f"it joined while segment {seen.state.joined_behind} was in progress, and does not vote on it: do not "
            f"replace another acceptor until that segment is finalized and `bookledger journal sync` has copied it here"
        )


DIGEST_BYTES = 16


@dataclass(slots=True)
class _Read:
    """The part of a segment that has been read."""

    next_txid: int
    digest: hashlib.blake2b
    marks: dict[int, bytes] = field(default_factory=dict)


class AcceptorCheck:
    """Adds one acceptor's segments and problems to the findings."""

    def __init__(
        self,
        inspector: JournalInspector,
        seen: AcceptorSeen,
        found: JournalFindings,
        *,
        deep: bool,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._inspector = inspector
        self._seen = seen
        self._found = found
        self._deep = deep
        self._on_bytes = on_bytes
        self._ledgers: AcceptorLedgers = inspector.ledgers(seen.name)
        self._client = inspector.clients[inspector.acceptors[seen.name]]

    async def run(self) -> None:
        for problem in (*self._seen.unreadable, *check_state(self._seen)):
            self._found.problem(f"acceptor {self._seen.name}", problem)
        for segment in self._seen.segments:
            await self._check(segment)

    async def _check(self, segment: SegmentRecord) -> None:
        where = f"acceptor {self._seen.name}, segment {segment.start_txid}"
        try:
            record = await self._client.describe_ledger(segment.ledger_id)
        except LedgerError as error:
            self._found.problem(where, error)
            self._found.lost_copies.add((self._seen.name, segment.start_txid))
            return
        for problem in self._wrong_with(segment, record):
            self._found.problem(where, problem)
        read = _Read(segment.start_txid, hashlib.blake2b(digest_size=DIGEST_BYTES))
        try:
            await self._read(segment, read)
            whole = self._ends_well(segment, read, where)
        except (JournalError, EditLogError) as error:
            self._found.problem(where, f"after txid {read.next_txid - 1}: {error}")
            whole = False
        self._note_copy(segment, read, whole=whole)

    def _wrong_with(self, segment: SegmentRecord, record: LedgerRecord) -> list[str]:
        """Returns the problems of a segment's ledger: the ledger must have been created for the segment, and must be
        closed if the segment has an end."""
        problems = []
        if segment.end_txid is not None and not record.is_closed:
            problems.append(
                f"it ends at txid {segment.end_txid}, but its ledger {record.ledger_id} is not closed"
            )
        labels = {
            JOURNAL_OF_LEDGER: self._inspector.journal_id,
            ACCEPTOR_OF_LEDGER: self._seen.name,
            SEGMENT_OF_LEDGER: str(segment.start_txid),
        }
        for label, value in labels.items():
            found = record.custom_metadata.get(label, b"").decode(errors="replace")
            if found != value:
                problems.append(f"its ledger {record.ledger_id} has {label}={found!r}, not {value!r}")
        return problems

    async def _read(self, segment: SegmentRecord, read: _Read) -> None:
        async with aclosing(self._ledgers.batches(segment.ledger_id, segment.start_txid)) as batches:
            async for batch in batches:
                check_batch(batch.records, read.next_txid, batch.num_txns)
                if self._deep:
                    for _ in iter_ops(batch.records, segment.layout_version):
                        pass
                self._took(segment, read, batch)

    def _took(self, segment: SegmentRecord, read: _Read, batch: Batch) -> None:
        read.digest.update(batch.records)
        read.next_txid += batch.num_txns
        if not segment.finalized:
            read.marks[batch.last_txid] = read.digest.digest()
        self._found.ops += batch.num_txns
        self._found.bytes += len(batch.records)
        self._on_bytes(len(batch.records))

    def _ends_well(self, segment: SegmentRecord, read: _Read, where: str) -> bool:
        end = read.next_txid - 1
        if segment.end_txid is None or end == segment.end_txid:
            return True
        self._found.problem(
            where, f"its ledger {segment.ledger_id} ends at txid {end}, not at {segment.end_txid}"
        )
        return False

    def _note_copy(self, segment: SegmentRecord, read: _Read, *, whole: bool) -> None:
        end = segment.end_txid if segment.end_txid is not None else read.next_txid - 1
        if end < segment.start_txid:
            return  # nothing has been written to the ledger yet
        self._found.copies.append(
            CopyFound(
                self._seen.name,
                segment.start_txid,
                end,
                segment.finalized,
                segment.writer_epoch,
                segment.layout_version,
                read.digest.digest() if whole else None,
                read.marks,
            )
        )
