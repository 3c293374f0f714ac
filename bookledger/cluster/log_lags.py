"""The lag of log readers, as defined by `Log.lag`, for metrics, the API and the console."""

from __future__ import annotations

import logging

from ledgers.aio import LedgerClient
from ledgers.errors import LedgerError
from metadata.records.logs.log_record import LogRecord

logger = logging.getLogger(__name__)


async def lag_of(client: LedgerClient, record: LogRecord, position: int) -> tuple[int, float] | None:
    """Returns the lag in records and in seconds; None if it is unknown because the log has a password or no bookie
    answers."""
    try:
        log = await client.log(record.name)
        lag = await log.lag(position)
    except LedgerError as error:
        logger.debug("the lag of log %r is unknown: %s", record.name, error)
        return None
    return (lag.records, lag.seconds) if log.record.identity == record.identity else None
