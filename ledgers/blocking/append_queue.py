"""Queue of appends between callers and the loop's thread, in order; consecutive single entries form runs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

R = TypeVar("R")
C = TypeVar("C", covariant=True)


class Batch(Protocol[C]):
    """Checked payloads that are appended together."""

    @property
    def payloads(self) -> Sequence[C]: ...
    @property
    def size_bytes(self) -> int: ...


@dataclass(slots=True)
class AppendRun(Generic[R]):
    """Consecutive single entries, each with the future of its id. If no caller waits for them, none has a future."""

    payloads: list[R] = field(default_factory=list)
    futures: list[Future[int]] = field(default_factory=list)
    size_bytes: int = 0
    are_awaited: bool = True


@dataclass(frozen=True, slots=True)
class Whole(Generic[R]):
    """A batch, and the future of its last id."""

    batch: Batch[R]
    future: Future[int] | None


class AppendQueue(Generic[R]):
    """The queue. Callers that change it hold the lock of the writer's `BackPressure`."""

    def __init__(self) -> None:
        self._parts: list[AppendRun[R] | Whole[R]] = []
        self._run: AppendRun[R] = AppendRun()

    def add(self, payload: R, size_bytes: int, future: Future[int] | None) -> None:
        """Adds one entry, already checked by its caller."""
        run = self._run
        if run.are_awaited is (future is None):
            run = self._end_run(are_awaited=future is not None)
        run.payloads.append(payload)
        if future is not None:
            run.futures.append(future)
        run.size_bytes += size_bytes

    def add_batch(self, batch: Batch[R], future: Future[int] | None) -> None:
        """Adds a batch."""
        self._end_run()
        self._parts.append(Whole(batch, future))

    def take(self) -> list[AppendRun[R] | Whole[R]]:
        """Removes and returns everything queued."""
        self._end_run()
        taken, self._parts = self._parts, []
        return taken

    def _end_run(self, *, are_awaited: bool = True) -> AppendRun[R]:
        """Ends the current run and begins the next, which it returns."""
        if self._run.payloads:
            self._parts.append(self._run)
        self._run = AppendRun(are_awaited=are_awaited)
        return self._run
