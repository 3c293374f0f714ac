"""The writer of a set of logs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar, Unpack
from zlib import crc32

from ...entry import Payload
from ..writing.checked_records import KeyedFields
from ..writing.log_writer import LogWriter

W = TypeVar("W")


def log_of(key: bytes, logs: int) -> int:
    """The number of the log that has a key: the CRC-32 of the key (that of zlib and PNG), modulo the number of logs."""
    return crc32(key) % logs


class Place(NamedTuple):
    """Where a record is: the number of its log in the set, and its position there."""

    log: int
    position: int


class KeyedWriters(Generic[W]):
    """The writers of a set's logs, in the order of their numbers."""

    def __init__(self) -> None:
        self.writers: list[W] = []

    def of(self, key: bytes) -> W:
        """The writer of the log that has this key."""
        return self.writers[self._number(key)]

    def _number(self, key: bytes) -> int:
        return log_of(key, len(self.writers))


class LogSetWriter(KeyedWriters[LogWriter]):
    """The one writer of a set. Made by `LogSet.writer`; belongs to its event loop.

    `writers`: that of each log. `of` tells which one has a key; what it appends is as if this one had.
    """

    async def append(self, payload: Payload, *, key: bytes, **fields: Unpack[KeyedFields]) -> Place:
        """Appends one record to the log of its key; returns where it is, once it is on disk.

        Raises as `LogWriter.append`. With a producer it is stored once in that log: its sequences rise in each. After a
        growth the log of a key may be another one, which does not know what the one before had: what is appended again
        then may be stored twice.
        """
        return Place(self._number(key), await self.of(key).append(payload, key=key, **fields))

    async def flush(self) -> None:
        """Waits until every append so far has completed; raises what ended one of the writers, if anything did."""
        for writer in self.writers:
            await writer.flush()

    async def close(self) -> None:
        """Closes all writers; raises what ended one of them."""
        async with AsyncExitStack() as stack:
            for writer in self.writers:
                stack.push_async_callback(writer.close)

    async def abandon(self) -> None:
        """Gives all logs up without closing them, as a crash would."""
        for writer in self.writers:
            await writer.abandon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes all writers, as each closes itself after an error in the block."""
        async with AsyncExitStack() as stack:
            for writer in self.writers:
                stack.push_async_exit(writer)
