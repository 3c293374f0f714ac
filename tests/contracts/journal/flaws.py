"""Flaws that a writer's call can have, in the order in which an acceptor must find them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

from qjm_compat.errors import (
    BadJournalState,
    BadRequest,
    JournalError,
    JournalNotFormatted,
    JournalOutOfSync,
    RuleViolated,
    StaleEpoch,
)
from qjm_compat.requests import (
    AcceptRecovery,
    DoPreUpgrade,
    FinalizeLogSegment,
    Heartbeat,
    PrepareRecovery,
    PurgeLogs,
    Request,
    RequestInfo,
    SegmentState,
    SendEdits,
    StartLogSegment,
)
from tests.qjm_compat.acceptor.one_writer import (
    formatted,
    writer_of,
)
from tests.qjm_compat.journals import frames

from .place import Place, another_process, place_of


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something wrong with a call or with the journal, and what must be said of it."""

    name: str
    error: type[JournalError]
    message: str


NOT_FORMATTED = Flaw("check 1", JournalNotFormatted, "not formatted ; journal id: ")
STALE = Flaw("check 2a", StaleEpoch, "is less than the last promised epoch")
NUMBER = Flaw("check 2c", JournalOutOfSync, "was not higher than prior highest IPC serial 10")
BACKWARD = Flaw("check 2d", BadRequest, "Client trying to move committed txid backward from ")
OTHER_WRITER = Flaw("check 3", StaleEpoch, "IPC's epoch 4 is not the current writer epoch  3")
NO_SEGMENT = Flaw("no segment", JournalOutOfSync, "Can't write, no segment open")
OTHER_SEGMENT = Flaw(
    "segment",
    JournalOutOfSync,
    "Writer out of sync: it thinks it is writing segment 5 but current segment is 10",
)
GAP = Flaw("gap", JournalOutOfSync, "Can't write txid 15 expecting nextTxId=13")
BROKEN = Flaw("frames", BadRequest, "is refused")
FINAL_THERE = Flaw("final", BadJournalState, "Already have a finalized segment beginning at 1")
EDITS_THERE = Flaw("edits", BadJournalState, "seems to contain valid transactions")
WRITTEN_LESS = Flaw(
    "written",
    JournalOutOfSync,
    "Trying to finalize in-progress log segment 10 to end at txid 19 but only written up to txid 12",
)
ON_DISK_LESS = Flaw("on disk", JournalOutOfSync, "but on disk only contains up to txid 12")
NO_LOG = Flaw("no log", JournalOutOfSync, "No log file to finalize at transaction ID 77")
FINALIZED_ELSE = Flaw(
    "other end", BadRequest, "Trying to re-finalize already finalized log [1-3] with different endTxId 2"
)
BAD_STATE = Flaw("state", BadRequest, "bad recovery state for segment")
DISCARDS = Flaw("committed", RuleViolated, "would discard already-committed txn")
FINAL_ELSE = Flaw("finalized", RuleViolated, "Cannot replace finalized segment")

CHECKS_1_2 = (NOT_FORMATTED, STALE, NUMBER, BACKWARD)

CHECKS: dict[type[Request[Any]], tuple[tuple[Flaw, ...], ...]] = {
    Heartbeat: (CHECKS_1_2,),
    StartLogSegment: ((*CHECKS_1_2, FINAL_THERE), (*CHECKS_1_2, EDITS_THERE)),
    SendEdits: ((*CHECKS_1_2, OTHER_WRITER, NO_SEGMENT), (*CHECKS_1_2, OTHER_SEGMENT, GAP, BROKEN)),
    FinalizeLogSegment: (
        (*CHECKS_1_2, WRITTEN_LESS),
        (*CHECKS_1_2, ON_DISK_LESS),
        (*CHECKS_1_2, NO_LOG),
        (*CHECKS_1_2, FINALIZED_ELSE),
    ),
    PurgeLogs: (CHECKS_1_2,),
    PrepareRecovery: (CHECKS_1_2,),
    AcceptRecovery: ((*CHECKS_1_2, BAD_STATE), (*CHECKS_1_2, DISCARDS), (*CHECKS_1_2, FINAL_ELSE)),
}
"""For each call of a writer, flaws in the order of their checks; several rows where they exclude each other."""

LOST_SEGMENT = frozenset({"check 3", "no segment", "on disk"})
"""Flaws that only an acceptor without an open segment can have."""


def flawed_together(kind: type[Request[Any]], *, neighbours_only: bool) -> dict[frozenset[str], Flaw]:
    """Every flaw alone, and every two that there can be at once, with the one whose check comes first."""
    found: dict[frozenset[str], Flaw] = {}
    for row in CHECKS[kind]:
        pairs = combinations_with_replacement(enumerate(row), 2)
        for (one, first), (other, second) in pairs:
            if other - one <= 1 or not neighbours_only:
                found[frozenset({first.name, second.name})] = first
    return found


def request_with(kind: type[Request[Any]], flaws: frozenset[str], info: RequestInfo) -> Request[Any]:
    """The call, otherwise right, with the flaws that are its own."""
    if kind is StartLogSegment:
        txid = 1 if "final" in flaws else 10 if "edits" in flaws else 20
        return StartLogSegment(info=info, txid=txid)
    if kind is SendEdits:
        first = 15 if "gap" in flaws else 13
        records = b"hello" if "frames" in flaws else frames(first, 1)
        segment = 5 if "segment" in flaws else 10
        return SendEdits(info=info, segment_txid=segment, first_txid=first, num_txns=1, records=records)
    if kind is FinalizeLogSegment:
        start = 77 if "no log" in flaws else 1 if "other end" in flaws else 10
        end = 19 if flaws & {"written", "on disk"} else 2 if "other end" in flaws else 12
        return FinalizeLogSegment(info=info, start_txid=start, end_txid=end)
    if kind is AcceptRecovery:
        start = 1 if "finalized" in flaws else 10
        end = 5 if "state" in flaws else 4 if "finalized" in flaws else 10 if "committed" in flaws else 12
        return AcceptRecovery(info=info, state=SegmentState(start, end, True, 3), source="a")
    if kind is PurgeLogs:
        return PurgeLogs(info=info, min_txid_to_keep=1)
    if kind is PrepareRecovery:
        return PrepareRecovery(info=info, segment_txid=10)
    return Heartbeat(info=info)


async def flawed_call(place: Place, journal_id: str, kind: type[Request[Any]], flaws: frozenset[str]) -> None:
    """A journal with segment 1-3, segment 10 in progress up to 12, and call number 10 made; then the call.

    It knows that 12 is committed where the committed range is what is asked for, 2 otherwise.
    """
    acceptor = place.process(journal_id=journal_id)
    await formatted(acceptor)
    writer = await writer_of(acceptor, 3)
    await writer.write_final(1, 3)
    writer.committed_txid = 12 if "committed" in flaws else 2
    await writer.write_open(10, 12)
    if flaws & LOST_SEGMENT:
        writer = await writer_of(acceptor, 4) if "check 3" in flaws else await another_process(place, writer)
        acceptor = place_of(writer)
    writer.committed_txid = 12 if "committed" in flaws else 2
    writer.serial = 10
    await writer.beat()
    if "check 1" in flaws:
        await acceptor.call(DoPreUpgrade())
    epoch = writer.epoch - 1 if "check 2a" in flaws else writer.epoch
    committed = writer.committed_txid - (1 if "check 2d" in flaws else 0)
    info = RequestInfo(epoch, 5 if "check 2c" in flaws else 11, committed)
    await acceptor.call(request_with(kind, flaws, info))
