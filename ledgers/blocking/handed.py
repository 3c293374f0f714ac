"""What callers have handed over and the loop's thread has not taken yet, in order; single entries in runs."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from ..writing.checked_batch import CheckedBatch


@dataclass(slots=True)
class Run:
    """Entries one after the other, each with the future of its id, or None where nobody waits for that one."""

    payloads: list[bytes] = field(default_factory=list)
    futures: list[Future[int] | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Whole:
    """A batch, and the future of its last id."""

    batch: CheckedBatch
    future: Future[int] | None


class Handed:
    """Whoever changes it holds the lock of the writer's room."""

    def __init__(self) -> None:
        self._parts: list[Run | Whole] = []
        self._run = Run()

    def add(self, payload: bytes, future: Future[int] | None) -> None:
        """One entry, which its caller has looked at."""
        self._run.payloads.append(payload)
        self._run.futures.append(future)

    def add_batch(self, batch: CheckedBatch, future: Future[int] | None) -> None:
        """All of a batch."""
        self._end_run()
        self._parts.append(Whole(batch, future))

    def take(self) -> list[Run | Whole]:
        """All there is; nothing is left."""
        self._end_run()
        taken, self._parts = self._parts, []
        return taken

    def _end_run(self) -> None:
        if self._run.payloads:
            self._parts.append(self._run)
            self._run = Run()
