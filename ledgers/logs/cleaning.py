"""Deletes what a log has given up, in the background."""

from __future__ import annotations

import logging
from contextlib import suppress

from metadata.records.logs.giving_up import Cleaner
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog

from ..errors import LedgerError, NoSuchLedger
from ..record_change import metadata_errors
from ..tasks import Tasks
from .log_chain import LogChain
from .segment_ledgers import SegmentLedgers

log = logging.getLogger(__name__)


class Cleaning:
    """The clean-ups of one client, one for each log at a time."""

    def __init__(self) -> None:
        self._tasks = Tasks(_failed)
        self._is_due: dict[bytes, bool] = {}
        """By the logs that are being cleaned: whether once more behind that."""

    def start(self, chain: LogChain, who: str) -> None:
        """Deletes what the log has given up; where that is going on, once more behind it. `who`: the client."""
        identity = chain.record.identity
        is_under_way = identity in self._is_due
        self._is_due[identity] = True
        if not is_under_way:
            self._tasks.start(self._clean(chain, who))

    async def close(self) -> None:
        """Stops; the rest is done when the log is truncated or taken over next."""
        await self._tasks.close()

    async def _clean(self, chain: LogChain, who: str) -> None:
        """What a legal hold keeps is deleted by the next truncation after it."""
        identity = chain.record.identity
        try:
            while self._is_due[identity]:
                self._is_due[identity] = False
                with metadata_errors():
                    await Cleaner(chain.logs, chain.refresh, who).clean(chain.change)
        except LedgerError as error:
            log.warning("what log %r has given up is not all deleted yet: %s", chain.record.name, error)
        finally:
            del self._is_due[identity]


async def delete_all(logs: LogStore, found: VersionedLog, ledgers: SegmentLedgers) -> None:
    """Deletes all that is left of a log that was given up. Its last ledger is recovered before that, if it is open: so
    its writer confirms nothing more. Raises what a recovery raises."""
    record, who = found.record, ledgers.cluster.who
    if record.last is not None and not record.last.is_ended:
        with suppress(NoSuchLedger):
            await ledgers.open(record.last, recovery=True)

    async def look() -> LogRecord:
        return record  # that of a deleted log changes no more

    with metadata_errors():
        if not await Cleaner(logs, look, who).forget(found):
            raise LedgerError(f"ledgers of log {record.name!r} keep changing; delete it again")


async def release(logs: LogStore, record: LogRecord) -> None:
    """Tells the logs whose ledgers a deleted log had that it needs nothing of them."""

    async def look() -> LogRecord:
        return record

    with metadata_errors():
        await Cleaner(logs, look).release(record)


def _failed(error: BaseException) -> None:
    log.error("a clean-up failed: %r", error, exc_info=error)
