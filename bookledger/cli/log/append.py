"""`bookledger log append`: takes over a log, and appends the records of a file or pipe to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ledgers import LedgerError, Log, LogWriter, NewRecord
from ledgers.logs.record_batch import Numbered

from ..membership.targets import LogPlace, log_place
from ..messages.help import command
from ..messages.interruption import advise_when_stopped
from ..options import json_option
from ..output import print_record
from ..payloads.source import HEADING, Source, source_options
from .json_records import new_record_in


@command(headings=HEADING)
@log_place
@click.option("--create", is_flag=True, help="Create the log if it does not exist.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Fence the log's current writer, even if it has died; it can no longer append.",
)
@source_options(
    "Read one JSON object per line, as `log read --json` prints. It has payload_base64, or payload as text; optionally "
    "key_base64 or key, headers_base64 or headers, event_time_us, and producer with sequence: a record with these is "
    "stored once."
)
@json_option
def append(place: LogPlace, create: bool, take_over: bool, source: Source, as_json: bool) -> None:
    """Append FILE (or standard input) to LOG, one record per line, as its only writer.

    Examples:
        seq 1000 | bookledger log append --create orders
        bookledger log append --take-over orders events.log
        bookledger log read orders --json | bookledger log append copy --json-lines
    """
    stored = _Stored(place.name)
    found = source.records(new_record_in, stored.check)
    with advise_when_stopped(stored.how), place.opened(create=create) as log:
        if not take_over:
            _check_has_no_writer(log)
        with stored.by(log.writer()) as writer:
            total_bytes = source.append_all(
                f"appending to log {place.name}", found, lambda record: _append(writer, record), writer.flush
            )
    print_record({**stored.fields(), "payload_bytes": total_bytes}, as_json=as_json)


class _Stored:
    """The input records that are known to be stored: those before the first one that is not confirmed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._writer: LogWriter | None = None
        self._first = 0

    @contextmanager
    def by(self, writer: LogWriter) -> Iterator[LogWriter]:
        """Closes the writer after the block; an error is raised with a description of the records stored so far."""
        self._writer, self._first = writer, writer.next_position
        try:
            with writer:
                yield writer
        except (LedgerError, OSError) as error:
            raise LedgerError(f"{error}; {self.how()}") from error

    def check(self) -> None:
        """Raises the error that ended the writer, if there was one."""
        if self._writer is not None and self._writer.failure is not None:
            raise self._writer.failure

    def fields(self) -> dict[str, Any]:
        assert self._writer is not None
        end = self._writer.confirmed_end
        return {
            "log": self._name,
            "first_position": self._first,
            "end_position": end,
            "records": end - self._first,
        }

    def how(self) -> str:
        """Describes the records that are known to be stored, and how to continue."""
        if self._writer is None:
            return "nothing was appended"
        end = self._writer.confirmed_end
        count = end - self._first
        stored = f"records 1 to {count} of the input are" if count else "no record of the input is"
        return (
            f"{stored} known to be in log {self._name}; if more were stored, they begin at position {end}: "
            f"`bookledger log read {self._name} --first {end}` shows them"
        )


def _check_has_no_writer(log: Log) -> None:
    """Raises LedgerError for a log with a writer, even one that has died."""
    record = log.refresh()
    if record.end_position is None:
        raise LedgerError(
            f"log {log.name} has a writer ({record.writer}, epoch {record.epoch}), which may have died; --take-over "
            "fences it"
        )


def _append(writer: LogWriter, record: bytes | NewRecord) -> None:
    if isinstance(record, NewRecord):
        producer, sequence = (
            (record.producer, record.sequence) if isinstance(record, Numbered) else (None, None)
        )
        writer.append_async(
            record.payload,
            key=record.key,
            headers=record.headers,
            event_time=record.event_time,
            producer=producer,
            sequence=sequence,
        )
    else:
        writer.append_async(record)
