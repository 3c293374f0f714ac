"""Deletes what a log has given up, in the background."""

from __future__ import annotations

import logging

from metadata.records.coordination.cursor_record import CursorStore
from metadata.records.logs import silences
from metadata.records.logs.giving_up import Cleaner
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.producer_record import ProducerStore

from ..errors import LedgerError
from ..record_change import metadata_errors
from ..tasks import Tasks
from .log_chain import LogChain
from .segment_ledgers import SegmentLedgers

log = logging.getLogger(__name__)


class Cleaning:
    """The clean-ups of one client, one for each log at a time."""

    def __init__(self) -> None:
        self._tasks = Tasks(_failed)
        self._is_due_again: dict[bytes, bool] = {}

    def start(self, chain: LogChain, ledgers: SegmentLedgers) -> None:
        """Deletes what the log has given up; where that is going on, once more behind it."""
        identity = chain.record.identity
        if identity in self._is_due_again:
            self._is_due_again[identity] = True
            return
        self._is_due_again[identity] = False
        self._tasks.start(self._clean(chain, ledgers))

    async def close(self) -> None:
        """Stops; the rest is done when the log is truncated or taken over next."""
        await self._tasks.close()

    async def _clean(self, chain: LogChain, ledgers: SegmentLedgers) -> None:
        identity = chain.record.identity
        try:
            await clean(chain, ledgers)
            while self._is_due_again[identity]:
                self._is_due_again[identity] = False
                await clean(chain, ledgers)
        except LedgerError as error:
            log.warning("what log %r has given up is not all deleted yet: %s", chain.record.name, error)
        finally:
            del self._is_due_again[identity]


async def clean(chain: LogChain, ledgers: SegmentLedgers) -> None:
    """Deletes the ledgers in which nothing is left; under a legal hold none, and the next truncation after it goes on.
    Raises NoSuchLog and what a deletion raises.
    """
    with metadata_errors():
        await Cleaner(chain, ledgers.delete).clean()


async def delete_all(logs: LogStore, found: VersionedLog, ledgers: SegmentLedgers) -> None:
    """Deletes all that is left of a log that was given up: its ledgers, its pages, its name, its record."""
    record = found.record
    assert record.deleted
    with metadata_errors():
        async for page in logs.pages(record.identity):
            for segment in page.segments:
                await ledgers.delete(segment.ledger_id)
            await logs.drop_page(record.identity, page)
        for ledger_id in (*(segment.ledger_id for segment in record.segments), *record.obsolete):
            await ledgers.delete(ledger_id)
        await logs.take_name(record.name, record.identity)
        await CursorStore(logs.store, record.identity).forget_all()
        await silences.forget(logs.store, record.identity)
        await ProducerStore(logs.store, record.identity).drop_all()
        await logs.forget(found)


def _failed(error: BaseException) -> None:
    log.error("a clean-up failed: %r", error, exc_info=error)
