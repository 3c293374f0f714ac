"""Base class of the blocking clients: an asyncio twin on an event loop in its own thread."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Generic, Protocol, Self, TypeVar

from ..loop_thread import LoopThread


class AsyncClient(Protocol):
    """What every asyncio client offers."""

    def connect(self) -> Coroutine[Any, Any, None]: ...

    def close(self) -> Coroutine[Any, Any, None]: ...


C = TypeVar("C", bound=AsyncClient)


class BlockingClient(Generic[C]):
    """A client that runs its asyncio twin's methods on the loop's thread, and waits. Use as `with`.

    May be used from several threads. In a process forked later every call raises ClientForked.
    """

    def __init__(self, twin: C) -> None:
        self._twin = twin
        self._thread = LoopThread()
        try:
            self._thread.run(self._twin.connect())
        except BaseException:
            self.close()
            raise
        self._thread.end_when_forgotten(twin.close, type(self).__name__)

    def __repr__(self) -> str:
        return repr(self._twin)

    def close(self) -> None:
        """Closes open writers as their own `close` does, all connections, and the thread. Safe to repeat.

        Done at the end of the program, too. Waits some seconds for bookies and metadata that do not answer, and logs a
        warning then: see the asyncio client's `close`.
        """
        self._thread.close(self._twin.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
