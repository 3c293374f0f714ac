"""A blocking set of logs, its writer and its consumers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from metadata.records.logs.log_set_record import LogSetRecord
from metadata.records.logs.retention import Retention

from ..entry import Payload
from ..logs.sets import log_set as aio
from ..logs.sets.set_consumption import GroupOptions, SetConsumption, SetRecord
from ..logs.sets.set_writer import KeyedWriters, SetPosition
from ..logs.sets.set_writer import LogSetWriter as AsyncLogSetWriter
from ..logs.writing.checked_records import KeyedFields
from ..loop_thread import LoopThread, iterate
from .cursor import note
from .election import Term
from .log import Log, LogWriter
from .twin_calls import BlockingFacade, copy_docstring, opening, waiting_for


class LogSetWriter(KeyedWriters[LogWriter]):
    """The only writer of a set. Made by `LogSet.writer`; may be used from several threads.

    `writers` holds the writer of each log, and `of` returns the one for a key. Records appended through these writers
    count as appended by the set's writer.
    """

    @copy_docstring(AsyncLogSetWriter.append)
    def append(self, payload: Payload, *, key: bytes, **fields: Unpack[KeyedFields]) -> SetPosition:
        return SetPosition(self._number(key), self.of(key).append(payload, key=key, **fields))

    @copy_docstring(AsyncLogSetWriter.flush)
    def flush(self) -> None:
        for writer in self.writers:
            writer.flush()

    @copy_docstring(AsyncLogSetWriter.close)
    def close(self) -> None:
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


class LogSet(BlockingFacade[aio.LogSet]):
    """An opened set of logs. Made by `LedgerClient.log_set`; may be used from several threads.

    Log n of a set is the log `<set>.<n>`. It can be read and truncated like any other log; its name, retention and
    legal hold are those of the set. All records of a key are in one log, in the order in which they were appended;
    after the set has grown, later records of a key may be in another log. Every call may raise MetadataUnavailable,
    and raises NoSuchLogSet once the set is deleted, even if another set has taken its name.
    """

    @property
    def name(self) -> str:
        """The set's name."""
        return self._twin.name

    @property
    def record(self) -> LogSetRecord:
        """The set's metadata, as last read or written."""
        return self._twin.record

    refresh = waiting_for(aio.LogSet.refresh)
    log = opening(aio.LogSet.log, Log)

    def writer(self, name: str | None = None, *, term: Term | None = None) -> LogSetWriter:
        """Takes over all logs of the set, each as `Log.writer` does; only one program writes to a set at a time.

        If a `term` is given, each log from then on refuses leaders of earlier terms of the same election. Completes an
        interrupted expansion. The writer gets LogFenced once another writer has taken a log over, or the set grows;
        call `writer` again for a new one. Raises LogFenced, LeadershipLost if the term is over, LedgerRecoveryFailed,
        NotEnoughBookies, Unauthorized, NotAllowed, and LedgerError if the set keeps growing.
        """
        taken = LogSetWriter()
        led = None if term is None else term._twin
        twin = self._run(partial(self._twin.writer, name, term=led))
        taken.writers += [LogWriter(self._thread, one) for one in twin.writers]
        return taken

    grow = waiting_for(aio.LogSet.grow)

    @property
    def retention(self) -> Retention:
        """The rules by which old records of each log are deleted automatically, as last read or written."""
        return self._twin.retention

    set_retention = waiting_for(aio.LogSet.set_retention)
    set_legal_hold = waiting_for(aio.LogSet.set_legal_hold)

    @copy_docstring(aio.LogSet.consume)
    def consume(self, group: str, **options: Unpack[GroupOptions]) -> Iterator[SetRecord]:
        return _consume(self._thread, self._twin.consumption(group, **options))


def _consume(thread: LoopThread, consumption: SetConsumption) -> Iterator[SetRecord]:
    for share, batch in iterate(thread, consumption.batches()):
        for record in batch.records():
            if share.is_over:
                break
            yield SetRecord(share.number, record)
            assert share.consumption is not None and share.consumption.cursor is not None
            note(thread, share.consumption.cursor, record.position + 1)
