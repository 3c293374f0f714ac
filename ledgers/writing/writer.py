"""What the writers of ledgers and of logs have in common: how they end, when they are full, and who waits for them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from ..cluster import Cluster
from ..errors import LedgerError
from .append_futures import AppendFutures, Complete


class Writer(ABC):
    """A writer on its client's event loop.

    `on_progress` is called after something was confirmed, a bookie fell behind or the writer ended, for wrappers in
    other threads.
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
        """Bytes appended and not confirmed, and ENTRY_OVERHEAD_BYTES for each entry or record of them."""

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether a bookie is so far behind that appends should wait for it (rule W6)."""

    @property
    def has_ended(self) -> bool:
        """Whether this writer takes nothing more: closed, or ended by an error."""
        return self._finished.done()

    @property
    def state(self) -> str:
        """Open, closing, closed, or what ended this writer, in words."""
        if self.failure is not None:
            return f"ended by {type(self.failure).__name__}"
        return "closed" if self.has_ended else "closing" if self._closing else "open"

    @property
    def failure(self) -> LedgerError | None:
        """What ended this writer, if it was not a close."""
        return self._finished.result() if self._finished.done() else None

    @property
    def is_full(self) -> bool:
        """Whether an append has to wait."""
        is_full = self.pending_bytes >= self.pending_bytes_max or self.is_behind
        return is_full and not self.has_ended

    def complete_with(self, complete: Complete) -> None:
        """Passes answered appends to this in bulk, instead of completing their futures one by one."""
        self._answers.complete = complete

    async def flush(self) -> None:
        """Waits until every append so far has completed; raises what ended the writer, if anything did."""
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
