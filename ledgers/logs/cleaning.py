"""Deletes, in the background, the ledgers of deleted logs and of truncated parts of logs."""

from __future__ import annotations

import logging
from contextlib import suppress

from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.segment_deletion import Cleaner

from ..errors import LedgerError, NoSuchLedger
from ..record_change import metadata_errors
from ..tasks import Tasks
from .log_chain import LogChain
from .log_segment_ledgers import LogSegmentLedgers

log = logging.getLogger(__name__)


class Cleaning:
    """The clean-ups started by one client, at most one at a time for each log."""

    def __init__(self) -> None:
        self._tasks = Tasks(_failed)
        self._is_due: dict[bytes, bool] = {}
        """The logs that are being cleaned up. The value is True if another clean-up must follow."""

    def start(self, chain: LogChain, who: str) -> None:
        """Deletes the truncated part of the log. If a clean-up of the log is already running, another one follows it.
        `who` identifies the client."""
        identity = chain.record.identity
        is_under_way = identity in self._is_due
        self._is_due[identity] = True
        if not is_under_way:
            self._tasks.start(self._clean(chain, who))

    async def close(self) -> None:
        """Stops all clean-ups. Remaining ledgers of truncated segments are deleted by the next truncation or take-over
        of their log."""
        await self._tasks.close()

    async def _clean(self, chain: LogChain, who: str) -> None:
        """Cleans up the log. Ledgers kept by a legal hold are deleted by the first truncation after the hold has
        ended."""
        identity = chain.record.identity
        try:
            while self._is_due[identity]:
                self._is_due[identity] = False
                with metadata_errors():
                    await Cleaner(chain.logs, chain.refresh, who).clean(chain.change)
        except LedgerError as error:
            log.warning(
                "some truncated parts of log %r have not been deleted yet: %s", chain.record.name, error
            )
        finally:
            del self._is_due[identity]


async def delete_all(logs: LogStore, found: VersionedLog, ledgers: LogSegmentLedgers) -> None:
    """Deletes everything that is left of a deleted log. If the log's last ledger is open, recovers that ledger first,
    so that its writer confirms nothing more. Raises the errors of a recovery."""
    record, who = found.record, ledgers.cluster.who
    if record.last is not None and not record.last.is_ended:
        with suppress(NoSuchLedger):
            await ledgers.open(record.last, recovery=True)

    async def look() -> LogRecord:
        return record  # the record of a deleted log does not change

    with metadata_errors():
        if not await Cleaner(logs, look, who).forget(found):
            raise LedgerError(f"the ledgers of log {record.name!r} keep changing; delete the log again")


async def release(logs: LogStore, record: LogRecord) -> None:
    """Records, in each log whose ledgers a deleted log shared, that the deleted log no longer needs them."""

    async def look() -> LogRecord:
        return record

    with metadata_errors():
        await Cleaner(logs, look).release(record)


def _failed(error: BaseException) -> None:
    log.error("a clean-up failed: %r", error, exc_info=error)
