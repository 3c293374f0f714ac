"""Base class of the writers of ledgers and of logs: how they end, when they are full, how callers wait for their
appends, and how they are closed with their client."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress

from ..cluster import Cluster
from ..errors import LedgerError
from ..tasks import end_tasks
from .append_futures import AppendFutures, Complete

log = logging.getLogger(__name__)

CLOSE_SECONDS_MAX = 5.0
"""How long a closing client waits for its writers if the bookies or the metadata store do not answer."""


class Writer(ABC):
    """A writer on its client's event loop.

    `on_progress` is for wrappers in other threads: it is called after entries have been confirmed, a bookie has fallen
    behind, or the writer has ended.
    """

    def __init__(self, cluster: Cluster, answers: AppendFutures) -> None:
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self.check_process = cluster.home.check
        self.pending_bytes_max = cluster.config.pending_bytes_max
        self._answers = answers
        self._finished: asyncio.Future[LedgerError | None] = self._loop.create_future()
        self._closing = False
        self.on_progress: Callable[[], None] = lambda: None

    @property
    @abstractmethod
    def pending_bytes(self) -> int:
        """Bytes appended but not confirmed, plus ENTRY_OVERHEAD_BYTES for each such entry or record."""

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether a bookie is so far behind that appends should wait for it (rule W6)."""

    @property
    @abstractmethod
    def what(self) -> str:
        """The human-readable name of the writer's ledger or log."""

    @abstractmethod
    def send_lac(self) -> None:
        """Sends the last-add-confirmed to the bookies, even while the writer is not idle."""

    @abstractmethod
    async def close(self) -> None:
        """Flushes, and closes the ledger or log."""

    @abstractmethod
    async def abandon(self) -> None:
        """Ends the writer without closing the ledger or log, as a crash would."""

    @property
    def has_ended(self) -> bool:
        """Whether this writer accepts no more entries because it was closed, or ended by an error."""
        return self._finished.done()

    @property
    def state(self) -> str:
        """ "open", "closing", "closed", or the reason why this writer ended, as text."""
        if self.failure is not None:
            return f"ended by {type(self.failure).__name__}"
        return "closed" if self.has_ended else "closing" if self._closing else "open"

    @property
    def failure(self) -> LedgerError | None:
        """The error that ended this writer; None if the writer is still usable, or if it was closed."""
        return self._finished.result() if self._finished.done() else None

    @property
    def is_full(self) -> bool:
        """Whether an append has to wait."""
        is_full = self.pending_bytes >= self.pending_bytes_max or self.is_behind
        return is_full and not self.has_ended

    def complete_with(self, complete: Complete) -> None:
        """Passes answered appends to `complete` in bulk instead of completing their futures one by one."""
        self._answers.complete = complete

    async def flush(self) -> None:
        """Waits until every append so far is confirmed; raises the error that ended the writer, if there is one.

        An `Unconfirmed` error contains the first entry, or log position, that is not confirmed.
        """
        self.check_process()
        if self._answers.appends_wait:
            flushed: asyncio.Future[int] = self._loop.create_future()
            self._answers.flush(flushed)
            await flushed
        else:
            self._raise_if_failed()

    def _raise_if_failed(self) -> None:
        if self.failure is not None:
            raise self.failure


async def close_writers(writers: Iterable[Writer]) -> None:
    """Closes writers in an orderly way: appends are flushed, and readers see the end.

    A writer that cannot be closed in time is abandoned with a warning. By then, the bookies that answer have received
    its last-add-confirmed.
    """
    left = list(writers)
    closing = {asyncio.create_task(_close(writer)): writer for writer in left if not writer.has_ended}
    try:
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_SECONDS_MAX)
        for task, writer in closing.items():
            why = task.exception() if task.done() else f"it took longer than {CLOSE_SECONDS_MAX:g} s"
            if why is not None:
                line = "%s was not closed when its client closed; a recovery will determine its end: %s"
                log.warning(line, writer.what, why)
    finally:
        await end_tasks(closing)
        for writer in left:
            await writer.abandon()


async def _close(writer: Writer) -> None:
    writer.send_lac()  # first, because the metadata store may be unavailable
    with suppress(LedgerError):  # `close` raises the error that ended the writer
        await writer.flush()
    writer.send_lac()
    await writer.close()
