"""Base class of the blocking client's handles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Protocol, Self, TypeVar

from metadata.records.ledger_record import LedgerRecord

from ..errors import ClientClosed, LedgerError
from ..loop_thread import LoopThread
from .twin_calls import BlockingFacade


class AsyncHandle(Protocol):
    """The ledger properties that every asyncio handle exposes; they can be read from any thread."""

    @property
    def ledger_id(self) -> int: ...

    @property
    def record(self) -> LedgerRecord: ...

    @property
    def last_add_confirmed(self) -> int: ...


class AsyncWriter(Protocol):
    """The state that every asyncio writer exposes; it can be read from any thread."""

    @property
    def state(self) -> str: ...


H = TypeVar("H", bound=AsyncHandle)


@contextmanager
def closed_once(writer: AsyncWriter) -> Iterator[None]:
    """Ignores ClientClosed from a writer that was already closed by its client."""
    try:
        yield
    except ClientClosed:
        if writer.state != "closed":
            raise


class ClosedOnExit(ABC):
    """Base class of handles that are closed at the end of a `with` block. The asyncio twin runs on `_thread`."""

    _thread: LoopThread

    @abstractmethod
    def close(self) -> None:
        """Closes this handle."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._thread.is_here:
            return  # a forked child leaves the block, but the handle belongs to the parent process
        if isinstance(error, LedgerError):
            with suppress(LedgerError):  # the block already raises the error
                self.close()
        else:
            self.close()


class BlockingHandle(ClosedOnExit, BlockingFacade[H]):
    """A handle of the blocking client: its asyncio twin, and the thread on which the twin runs.

    May be used from several threads. Once the client is closed, every call raises ClientClosed. In a callback of an
    append's future, a blocking call raises WouldDeadlock.
    """

    @property
    def ledger_id(self) -> int:
        """The permanent id of the ledger."""
        return self._twin.ledger_id

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as this handle last read or wrote it."""
        return self._twin.record

    @property
    def last_add_confirmed(self) -> int:
        """The last entry that this handle knows to be confirmed together with all entries before it; −1 if there is
        none."""
        return self._twin.last_add_confirmed
