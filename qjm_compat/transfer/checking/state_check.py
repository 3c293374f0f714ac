"""Invariants within one acceptor's state, and between it and its records. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...acceptor.programs.transitions import is_behind
from ..inspection.acceptor_seen import AcceptorSeen


def check_state(seen: AcceptorSeen) -> Iterator[str]:
    """One sentence for each impossible state, and for each state that must not last."""
    yield from _epochs(seen)
    yield from _segments(seen)
    yield from _last_finalized(seen)
    yield from _accepted(seen)
    yield from _behind(seen)


def _epochs(seen: AcceptorSeen) -> Iterator[str]:
    state = seen.state
    if state.last_writer_epoch > state.last_promised_epoch:
        yield (
            f"its writer has epoch {state.last_writer_epoch}, but it promised at most {state.last_promised_epoch}"
        )
    epochs = [(s.start_txid, s.writer_epoch) for s in state.segments]
    epochs += [(s.start_txid, s.writer_epoch) for s in seen.finalized]
    for start_txid, epoch in epochs:
        if epoch > state.last_promised_epoch:
            yield (
                f"segment {start_txid} is of epoch {epoch}, and no more than "
                f"{state.last_promised_epoch} was promised"
            )


def _segments(seen: AcceptorSeen) -> Iterator[str]:
    records = {record.start_txid: record for record in seen.finalized}
    starts: set[int] = set()
    for segment in seen.state.segments:
        if segment.start_txid in starts:
            yield f"segment {segment.start_txid} stands in its state twice"
        starts.add(segment.start_txid)
        if segment.end_txid is not None and segment.end_txid < segment.start_txid:
            yield f"segment {segment.start_txid} ends at txid {segment.end_txid}"
        record = records.get(segment.start_txid)
        if record is None:
            continue
        if not segment.finalized:
            yield f"segment {segment.start_txid} has a record, and is not finalized"
        elif (record.ledger_id, record.end_txid) != (segment.ledger_id, segment.end_txid):
            yield (
                f"segment {segment.start_txid} ends at txid {segment.end_txid} of ledger {segment.ledger_id} by its "
                f"state, and at txid {record.end_txid} of ledger {record.ledger_id} by its record"
            )


def _last_finalized(seen: AcceptorSeen) -> Iterator[str]:
    """The segment that was finalized here last must be here until it is purged."""
    start_txid = seen.state.last_finalized_start
    if start_txid >= max(1, seen.state.purged_below) and not seen.has_final(start_txid):
        yield f"segment {start_txid} was finalized last, and is missing"


def _accepted(seen: AcceptorSeen) -> Iterator[str]:
    """An accepted segment must be here, because the choice and the ledger that holds it change together."""
    ends = {segment.start_txid: segment.end_txid for segment in seen.state.segments}
    ends |= {record.start_txid: record.end_txid for record in seen.finalized}
    for accepted in seen.state.accepted:
        if accepted.epoch > seen.state.last_promised_epoch:
            yield f"a recovery of segment {accepted.start_txid} was accepted in epoch {accepted.epoch}, never promised"
        if ends.get(accepted.start_txid) != accepted.end_txid:
            yield (
                f"segment {accepted.start_txid} was accepted to end at txid {accepted.end_txid}, and "
                f"ends at {ends.get(accepted.start_txid)}"
            )


def _behind(seen: AcceptorSeen) -> Iterator[str]:
    """An acceptor that joined during a segment does not vote on it."""
    if is_behind(seen.state, (record.start_txid for record in seen.finalized)):
        yield (
            f"it joined while segment {seen.state.joined_behind} was in progress, and does not vote on it: replace no "
            f"other acceptor before that segment is finalized and `bookledger journal sync` has copied it here"
        )
