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
    """Returns the number of the log for a key: the key's CRC-32 (as in zlib and PNG) modulo the number of logs."""
    return crc32(key) % logs


class SetPosition(NamedTuple):
    """The location of a record in a set."""

    log: int
    """The number of the log in the set."""
    position: int
    """The position of the record in that log."""


class KeyedWriters(Generic[W]):
    """The writers of a set's logs, in the order of the logs' numbers."""

    def __init__(self) -> None:
        self.writers: list[W] = []

    def of(self, key: bytes) -> W:
        """Returns the writer of the log for this key."""
        return self.writers[self._number(key)]

    def _number(self, key: bytes) -> int:
        return log_of(key, len(self.writers))


class LogSetWriter(KeyedWriters[LogWriter]):
    """The only writer of a set. Made by `LogSet.writer`; belongs to its event loop.

    `writers` holds the writer of each log, and `of` returns the one for a key. Records appended through these writers
    count as appended by the set's writer.
    """

    async def append(self, payload: Payload, *, key: bytes, **fields: Unpack[KeyedFields]) -> SetPosition:
        """Appends one record to the log for its key; returns the record's location once it is on disk.

        With a producer, the record is stored only once in that log; a producer's sequences must rise in each log. After
        the set has grown, a key may belong to another log, which has no producer state for the records in the former
        log, so a record that is appended again may then be stored twice. Raises the errors of `LogWriter.append`.
        """
        return SetPosition(self._number(key), await self.of(key).append(payload, key=key, **fields))

    async def flush(self) -> None:
        """Waits until all earlier appends have completed; raises the error that ended one of the writers, if any."""
        for writer in self.writers:
            await writer.flush()

    async def close(self) -> None:
        """Closes all writers; raises the error that ended one of them, if any."""
        async with AsyncExitStack() as stack:
            for writer in self.writers:
                stack.push_async_callback(writer.close)

    async def abandon(self) -> None:
        """Abandons all logs without closing them, as a crash would."""
        for writer in self.writers:
            await writer.abandon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes all writers. If the block raised an error, each writer closes as it would after an error in its own
        block."""
        async with AsyncExitStack() as stack:
            for writer in self.writers:
                stack.push_async_exit(writer)
