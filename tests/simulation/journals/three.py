"""Three acceptors on dictionaries, and calls to them one by one: who hears what is up to the test."""

from __future__ import annotations

from typing import Any

from ledgers.protocol.quorum import majority
from metadata.records.journal_record import JournalState
from qjm_compat.acceptor.programs.acceptor_effects import SwapState
from qjm_compat.acceptor.programs.machine import program
from qjm_compat.manager.proposer import best_source
from qjm_compat.manager.segments_seen import segments_seen
from qjm_compat.requests import (
    AcceptRecovery,
    FinalizeLogSegment,
    GetEditLogManifest,
    NewEpoch,
    PrepareRecovery,
    PrepareReply,
    Request,
    RequestInfo,
    SegmentState,
    SendEdits,
    StartLogSegment,
)
from tests.qjm_compat.by_hand import NAMES, ThreeDisks
from tests.qjm_compat.model import ModelAcceptor

from .edits import frames
from .users import NAMESPACE

A, B, C = 0, 1, 2
QUORUM = majority((A, B, C))


class Three(ThreeDisks):
    """Three acceptors, and calls that are numbered as one writer after the other would."""

    def __init__(self) -> None:
        super().__init__()
        self._serial = 0
        for acceptor in self.acceptors:
            acceptor.disk.perform(SwapState(JournalState(storage=NAMESPACE.storage), None), self.disks)

    def info(self, epoch: int, committed: int | None = None) -> RequestInfo:
        self._serial += 1
        return RequestInfo(epoch, self._serial, committed)

    def promise(self, epoch: int, *who: int) -> None:
        for number in who:
            self.acceptors[number].answer(NewEpoch(NAMESPACE, epoch))

    def start(self, epoch: int, txid: int, *who: int) -> None:
        for number in who:
            self.acceptors[number].answer(StartLogSegment(info=self.info(epoch), txid=txid))

    def send(
        self, epoch: int, segment: int, first: int, count: int, *who: int, committed: int | None = None
    ) -> None:
        for number in who:
            self.acceptors[number].answer(
                SendEdits(
                    info=self.info(epoch, committed),
                    segment_txid=segment,
                    first_txid=first,
                    num_txns=count,
                    records=frames(epoch, first, count),
                )
            )

    def prepare(self, epoch: int, segment: int, *who: int) -> dict[int, PrepareReply]:
        return {
            n: self.acceptors[n].answer(PrepareRecovery(info=self.info(epoch), segment_txid=segment))
            for n in who
        }

    def accept(self, epoch: int, state: SegmentState, source: int, *who: int) -> None:
        for number in who:
            request = AcceptRecovery(info=self.info(epoch), state=state, source=NAMES[source])
            self.acceptors[number].answer(request)

    def finalize(self, epoch: int, start: int, end: int, *who: int) -> None:
        for number in who:
            request = FinalizeLogSegment(info=self.info(epoch), start_txid=start, end_txid=end)
            self.acceptors[number].answer(request)

    def chosen(self, epoch: int, segment: int, *who: int) -> tuple[SegmentState, int]:
        """What a recovery through these acceptors takes, and from whom."""
        replies = self.prepare(epoch, segment, *who)
        source = best_source(replies)
        state = replies[source].segment
        assert state is not None
        return state, source

    def content(self, number: int, start: int) -> bytes:
        found = self.acceptors[number].disk.segment(start)
        assert found is not None
        batches = self.acceptors[number].disk.ledgers[found[0]].batches
        return b"".join(bytes(batch.records) for batch in batches)

    def seen(self, *who: int) -> list[tuple[int, int]]:
        """What a reader of these acceptors may believe."""
        manifests = {n: self.acceptors[n].answer(GetEditLogManifest(0, True)) for n in who}
        found = segments_seen(manifests, QUORUM, only_durable=True)
        return [(segment.first_txid, segment.last_txid) for segment in found]


def perform_until(acceptor: ModelAcceptor, request: Request[Any], stop_at: int) -> int:
    """Runs a call and dies after so many effects; returns how many were done."""
    steps, done, outcome = program(acceptor.memory, request), 0, None
    try:
        while True:
            effect = steps.send(outcome)
            if done == stop_at:
                return done
            outcome, done = acceptor.perform(effect), done + 1
    except StopIteration:
        return done
