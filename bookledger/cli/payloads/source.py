"""The input of commands that append: a file or pipe, and how it is cut."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO, TypeVar

import click

from bookie.wire import ENTRY_BYTES_MAX
from ledgers import LedgerError, NewRecord
from ledgers.entry import Payload
from ledgers.errors import EntryTooLarge

from .. import standard_files
from ..options import made_of
from ..output import ProgressBar
from . import cutting

LOOK_MILLISECONDS = 200
"""Interval between calls of `check` while the input yields nothing."""


def watched(file: BinaryIO, check: Callable[[], object]) -> BinaryIO:
    """Returns the unread part of `file`, unbuffered; while the input yields nothing, an error raised by `check` ends
    the read."""
    return BufferedReader(_WatchedFile(file, check))


class _WatchedFile(RawIOBase):
    """Waits in `poll`, not in `read`, so that `check` is called even while no input arrives. Does not close the file,
    which belongs to the caller."""

    def __init__(self, file: BinaryIO, check: Callable[[], object]) -> None:
        self._file = file
        self._check = check
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._poll.poll(LOOK_MILLISECONDS):
            self._check()
        return os.readv(self._file.fileno(), [buffer])


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=Payload | NewRecord)

HEADING = {"Input": ("--delimiter", "--record-bytes", "--json-lines")}


@dataclass(frozen=True, slots=True)
class Source:
    """The input to append. Raises UsageError if it would be cut in two ways, or if standard input is closed."""

    file: BinaryIO
    delimiter: bytes | None
    record_bytes: int | None
    json_lines: bool

    def __post_init__(self) -> None:
        ways = {
            "--json-lines": self.json_lines,
            "--delimiter": self.delimiter is not None,
            "--record-bytes": self.record_bytes is not None,
        }
        given = [name for name, is_given in ways.items() if is_given]
        if len(given) > 1:
            raise click.UsageError(f"{' and '.join(given)} are two ways to split the input; choose one")
        if self.file.fileno() == standard_files.STDIN and standard_files.input_was_closed():
            raise click.UsageError("standard input is closed: name a FILE, or send data to standard input")

    def records(self, of_json: Callable[[object], T], check: Callable[[], object]) -> Iterator[T | bytes]:
        """Yields the records cut from the input. `of_json` decodes a line of JSON; `check` is called while the input
        yields nothing."""
        file = watched(self.file, check)
        if self.json_lines:
            return cutting.json_lines(file, of_json)
        if self.delimiter is not None:
            return cutting.delimited(file, self.delimiter)
        return cutting.lines(file) if self.record_bytes is None else cutting.of_size(file, self.record_bytes)

    def append_all(
        self,
        title: str,
        found: Iterator[T | bytes],
        append: Callable[[T | bytes], object],
        flush: Callable[[], object],
    ) -> int:
        """Appends the items of `records` and flushes them, under a progress bar; returns the bytes of all payloads."""
        total_bytes = 0
        cut_bytes = 0 if self.record_bytes is not None else len(self.delimiter or b"\n")
        with ProgressBar(title, None if self.json_lines else self._size_bytes()) as advance:
            for number, record in enumerate(found, 1):
                try:
                    append(record)
                except EntryTooLarge as error:
                    raise LedgerError(f"record {number} of the input: {error}") from error
                size = len(record.payload if isinstance(record, NewRecord) else record)
                total_bytes += size
                advance(size + cut_bytes)
            flush()
        return total_bytes

    def _size_bytes(self) -> int | None:
        """Returns the number of bytes left to read; None if the input is not a regular file."""
        status = os.fstat(self.file.fileno())
        return max(0, status.st_size - self.file.tell()) if stat.S_ISREG(status.st_mode) else None


def source_options(json_line: str) -> Callable[[F], F]:
    """Adds FILE and the options that cut it; the command gets them as `source`. `json_line`: help of --json-lines."""
    return made_of(
        "source",
        Source,
        click.option(
            "--delimiter",
            type=cutting.Delimiter(),
            help=r"Delimiter of records instead of a newline, such as '\0' or '\r\n'; it is not part of the entry.",
        ),
        click.option(
            "--record-bytes",
            type=click.IntRange(1, ENTRY_BYTES_MAX),
            help="Cut the input into records of this size.",
        ),
        click.option("--json-lines", is_flag=True, help=json_line),
        click.argument("file", type=click.File("rb"), default="-"),
    )
