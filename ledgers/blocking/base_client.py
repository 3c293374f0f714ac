"""Base class of the blocking clients: an asyncio twin on an event loop in its own thread."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, Self, TypeVar

from ..loop_thread import LoopThread
from .twin_calls import BlockingFacade


class AsyncClient(Protocol):
    """The methods that every asyncio client offers."""

    def connect(self) -> Coroutine[Any, Any, None]: ...

    def close(self) -> Coroutine[Any, Any, None]: ...


C = TypeVar("C", bound=AsyncClient)


class BlockingClient(BlockingFacade[C]):
    """A client that runs its asyncio twin's methods on the loop's thread and waits for them. Use it in a `with`
    statement.

    May be used from several threads. In a process forked later, every call raises ClientForked. The client is also
    closed at the end of the program.
    """

    def __init__(self, twin: C) -> None:
        super().__init__(LoopThread(), twin)
        try:
            self._run(self._twin.connect)
        except BaseException:
            self.close()
            raise
        self._thread.end_when_forgotten(twin.close, type(self).__name__)

    def close(self) -> None:
        """Closes the asyncio twin and ends the thread. Safe to repeat."""
        self._thread.close(self._twin.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
