"""Bugs planted in what accepting makes of a log when the metadata went back, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bookledger.cluster.rebuilding import record_repair, stale_logs
from bookledger.cluster.rebuilding.logs import RebuiltLog
from metadata.records.ledger_record import LedgerRecord
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from tests.simulation.engine.planted import Real, around, instead_of


@instead_of(record_repair, "find_stale_log", within=1000, known=22)
async def accepting_brings_up_ledgers_and_no_logs(
    logs: LogStore, identity: bytes, ledgers: Sequence[LedgerRecord]
) -> tuple[LogRecord, None]:
    standing = await logs.read(identity)
    assert standing is not None
    return standing.record, None


@around(stale_logs, "_merged", within=1000, known=70)
def a_log_that_is_brought_up_has_the_epoch_of_the_copy(
    merged: Real, known: LogRecord, later: LogRecord
) -> LogRecord:
    record: LogRecord = merged(known, later)
    return replace(record, epoch=known.epoch)


@around(stale_logs, "rebuilt_log", within=1000, known=22)
def the_last_segment_is_left_out(rebuilt: Real, ledgers: Sequence[LedgerRecord], paged_us: int) -> RebuiltLog:
    last = max(one.ledger_id for one in ledgers)
    made: RebuiltLog = rebuilt([one for one in ledgers if one.ledger_id != last] or ledgers, paged_us)
    return made
