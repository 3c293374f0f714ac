"""A set of logs, its writer and its consumers, in ordinary code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self, Unpack

from metadata.records.logs.log_set_record import LogSetRecord
from metadata.records.logs.retention import Retention

from ...entry import Payload
from ...logs.sets import log_set as aio
from ...logs.sets.set_consumption import GroupOptions, SetConsumption, SetRecord
from ...logs.sets.set_writer import KeyedWriters, Place
from ...logs.writing.checked_records import KeyedFields
from ...loop_thread import LoopThread, iterate
from ..coordination.cursor import note
from ..coordination.election import Term
from ..log import Log, LogWriter


class LogSetWriter(KeyedWriters[LogWriter]):
    """The one writer of a set; see `ledgers.logs.sets.set_writer.LogSetWriter`. `writers`: that of each log."""

    def append(self, payload: Payload, *, key: bytes, **fields: Unpack[KeyedFields]) -> Place:
        """Appends one record to the log of its key; returns where it is, once it is on disk."""
        return Place(self._number(key), self.of(key).append(payload, key=key, **fields))

    def flush(self) -> None:
        """Waits for all appends so far; raises what ended one of the writers."""
        for writer in self.writers:
            writer.flush()

    def close(self) -> None:
        """Closes all writers; raises what ended one of them."""
        with ExitStack() as stack:
            for writer in self.writers:
                stack.callback(writer.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for writer in self.writers:
                stack.push(writer)


class LogSet:
    """A set of logs, opened; see `ledgers.logs.sets.log_set.LogSet`. May be used from several threads."""

    def __init__(self, thread: LoopThread, twin: aio.LogSet) -> None:
        self._thread = thread
        self._twin = twin

    def __repr__(self) -> str:
        return repr(self._twin)

    @property
    def name(self) -> str:
        return self._twin.name

    @property
    def record(self) -> LogSetRecord:
        """The set's metadata as it was seen last."""
        return self._twin.record

    def refresh(self) -> LogSetRecord:
        """Reads the metadata again."""
        return self._thread.run(self._twin.refresh())

    def log(self, number: int) -> Log:
        """One of its logs."""
        return Log(self._thread, self._thread.run(self._twin.log(number)))

    def writer(self, name: str | None = None, *, term: Term | None = None) -> LogSetWriter:
        """Takes all logs over; see `ledgers.logs.sets.log_set.LogSet.writer`."""
        taken = LogSetWriter()
        twin = self._thread.run(self._twin.writer(name, term=None if term is None else term.twin))
        taken.writers += [LogWriter(self._thread, one) for one in twin.writers]
        return taken

    def grow(self, logs: int) -> None:
        """Spreads keys over so many logs from now on; see `ledgers.logs.sets.log_set.LogSet.grow`."""
        self._thread.run(self._twin.grow(logs))

    @property
    def retention(self) -> Retention:
        """What of each log goes by itself, as it was seen last."""
        return self._twin.retention

    def set_retention(self, retention: Retention) -> None:
        """Settles what goes by itself, for all logs; see `ledgers.logs.sets.log_set.LogSet.set_retention`."""
        self._thread.run(self._twin.set_retention(retention))

    def set_legal_hold(self, is_held: bool) -> None:
        """Begins or ends a legal hold on all logs; see `ledgers.logs.sets.log_set.LogSet.set_legal_hold`."""
        self._thread.run(self._twin.set_legal_hold(is_held))

    def consume(self, group: str, **options: Unpack[GroupOptions]) -> Iterator[SetRecord]:
        """Yields records of the logs that this member of the group has, each at least once, and commits what was used.

        See `ledgers.logs.sets.log_set.LogSet.consume`.
        """
        return _consume(self._thread, self._twin.consumption(group, **options))


def _consume(thread: LoopThread, consumption: SetConsumption) -> Iterator[SetRecord]:
    for share, batch in iterate(thread, consumption.batches()):
        for record in batch.records():
            if share.is_over:
                break
            yield SetRecord(share.number, record)
            assert share.consumption is not None and share.consumption.cursor is not None
            note(thread, share.consumption.cursor, record.position + 1)
