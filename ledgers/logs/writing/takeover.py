"""Takes a log over: starts a new epoch by compare-and-swap, recovers the last segment, and begins the next one."""

from __future__ import annotations

from metadata.audit import Act, record_audit
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.segment import Segment

from ...cluster import Cluster
from ...elections.term import Term
from ...errors import LogFenced, NoSuchLedger, NoSuchLog
from ..known_end import KnownEnd
from ..log_access import check_may_write
from ..log_chain import LogChain, check_not_restored, dropped_by_rivals_only, under
from ..log_segment_ledgers import LogSegmentLedgers
from ..producers.producer_state_manager import ProducerStateManager
from ..segment_pages import turn_full_pages
from .log_writer import LogWriter
from .record_clock import RecordClock


async def take_over(
    cluster: Cluster,
    chain: LogChain,
    ledgers: LogSegmentLedgers,
    writer: str,
    term: Term | None = None,
    *,
    known: KnownEnd,
) -> LogWriter:
    """Takes the log over and returns its only writer. The former writer confirms nothing more from then on.

    Raises LogFenced if another writer takes the log over in the meantime, or a leader of a later term has already done
    so; Unauthorized before anything is changed; LedgerRecoveryFailed, NotEnoughBookies, NoSuchLog, MetadataUnavailable.
    """
    await _check_may_write(cluster, chain, ledgers.password)
    clock = RecordClock(cluster, chain.record.name)
    await clock.ask()
    record = await chain.change(lambda record: _taken_over(record, writer, term))
    epoch = record.epoch
    await turn_full_pages(chain)  # otherwise the record of a log whose writers never roll would become full
    record = chain.record
    if record.epoch != epoch:
        raise LogFenced(record.name, record.writer or "unnamed", record.epoch)
    ended = await _ended(chain, ledgers)
    begun_us = clock.begin_us(0 if ended is None else ended.ended_us)
    start = record.paged_through if ended is None else ended.end_position
    assert start is not None
    producers = await ProducerStateManager.at(chain, ledgers, epoch, ended and ended.before(begun_us))
    handle = await ledgers.create(record, start)

    def begun(record: LogRecord) -> LogRecord:
        last = record.last
        if last is not None and last.ledger_id == handle.ledger_id:
            return record  # an earlier attempt succeeded, but its answer was lost
        if ended is not None and last is not None and last.ledger_id == ended.ledger_id:
            record = record.ended(ended)
        if record.end_position != start:
            # The metadata returned to an older state, and another writer got the same epoch.
            raise LogFenced(record.name, record.writer or "unnamed", epoch)
        return record.begun(Segment(handle.ledger_id, start, epoch, begun_us))

    try:
        await chain.change(under(epoch, begun))
    except NoSuchLog:
        await ledgers.discard(handle)
        raise
    except LogFenced:  # after any other error, the record may refer to the ledger
        if not _may_name(chain.record, handle.ledger_id, start):
            await ledgers.discard(handle)
        raise
    record_audit(Act.EPOCH, who=cluster.who, log=record.name, epoch=epoch)
    return LogWriter(cluster, chain, ledgers, epoch, handle, producers, clock, known)


async def _check_may_write(cluster: Cluster, chain: LogChain, password: bytes) -> None:
    record = await chain.refresh()
    try:
        await check_may_write(cluster, record, password)
    except NoSuchLedger:
        if (await chain.refresh()).last == record.last:
            raise
        await check_may_write(cluster, chain.record, password)  # another writer has dropped an empty segment


def _taken_over(record: LogRecord, writer: str, term: Term | None) -> LogRecord:
    check_not_restored(record)
    if term is None:
        return record.taken_over(writer)
    if record.refuses(term.election, term.token):
        by = f"{record.writer or 'unnamed'}, term {record.token} of election {record.election!r}"
        raise LogFenced(record.name, by, record.epoch)
    return record.taken_over(writer).led(term.election, term.token)


async def _ended(chain: LogChain, ledgers: LogSegmentLedgers) -> Segment | None:
    """Returns the last segment as ended, after recovering it if it is open; None for a log without segments."""
    last = chain.record.last
    async with dropped_by_rivals_only(chain, chain.record.epoch):
        return last if last is None or last.is_ended else await ledgers.recover(last)


def _may_name(record: LogRecord, ledger_id: int, start: int) -> bool:
    """Returns whether a change whose answer was lost may have added the segment before a later writer took the log
    over."""
    return record.paged_through > start or any(s.ledger_id == ledger_id for s in record.segments)
