"""The product's coroutines where nothing has to be waited for: driven to their end at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterable
from typing import Any, TypeVar

from qjm_compat.acceptor.copying import SegmentContent
from qjm_compat.batch import Batch

T = TypeVar("T")


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns; one that waits for anything is a mistake."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError(f"{coroutine!r} waits")


def gathered(generator: AsyncGenerator[T, None]) -> list[T]:
    """Everything that it yields."""

    async def all_of() -> list[T]:
        return [one async for one in generator]

    return finished(all_of())


async def each(items: Iterable[T]) -> AsyncGenerator[T, None]:
    for item in items:
        yield item


class Given:
    """A ledger that takes every batch in at once."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    async def append(self, ledger_id: int, batch: Batch) -> Given:
        self.batches.append(batch)
        return self

    async def confirmed(self) -> None:
        """It is."""


class Reader:
    """An acceptor as `EditLogInputStream` reads it: `read` gives the segment as it stands now."""

    def __init__(self, name: str, read: Any) -> None:
        self.name = name
        self._read = read

    async def read_segment(
        self, start_txid: int, from_txid: int, *, in_progress_ok: bool = True
    ) -> SegmentContent:
        found, batches = self._read(start_txid, from_txid)
        return SegmentContent(found.layout_version, found.in_progress, each(batches))
