"""Queue of appends between callers and the loop's thread, in order; single entries are grouped in runs."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from ..writing.checked_batch import CheckedBatch


@dataclass(slots=True)
class AppendRun:
    """Consecutive single entries, each with the future of its id, or None if nobody waits for it."""

    payloads: list[bytes] = field(default_factory=list)
    futures: list[Future[int] | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Whole:
    """A batch, and the future of its last id."""

    batch: CheckedBatch
    future: Future[int] | None


class AppendQueue:
    """The queue. Callers that change it hold the lock of the writer's room."""

    def __init__(self) -> None:
        self._parts: list[AppendRun | Whole] = []
        self._run = AppendRun()

    def add(self, payload: bytes, future: Future[int] | None) -> None:
        """Adds one entry, already checked by its caller."""
        self._run.payloads.append(payload)
        self._run.futures.append(future)

    def add_batch(self, batch: CheckedBatch, future: Future[int] | None) -> None:
        """Adds a batch."""
        self._end_run()
        self._parts.append(Whole(batch, future))

    def take(self) -> list[AppendRun | Whole]:
        """Removes and returns everything queued."""
        self._end_run()
        taken, self._parts = self._parts, []
        return taken

    def _end_run(self) -> None:
        if self._run.payloads:
            self._parts.append(self._run)
            self._run = AppendRun()
