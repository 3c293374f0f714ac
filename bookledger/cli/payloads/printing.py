"""Prints items to standard output, to a new file, or to a directory: as lines, as JSON lines, or raw."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import click
from click.core import ParameterSource

from bookie.disk.disk import sync_directory
from ledgers import Columns, Entry, LedgerError, Record
from ledgers.reading.batch_read import entries_of
from metadata.keys import LEDGER_ID_MAX

from ..messages.interruption import again
from ..options import FilePath
from ..output import check_is_new, whole_file
from ..terminal import shown_bytes

DIGITS = len(str(LEDGER_ID_MAX))
"""Number of digits in a file's name, so that names sort in the order of ids."""

UNFINISHED = ".unfinished"
"""Name of the file being written; the file gets its final name when it is on disk."""


class PayloadFiles:
    """Files named by entry id or position. Each appears only when it is complete and on disk; none is ever replaced.

    A file that already has its payload is kept, so repeating an interrupted command continues where it stopped.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._unfinished = directory / UNFINISHED

    def write(self, items: Iterable[Entry | Record]) -> None:
        """Writes the files, and returns once their names are on disk, too. Raises LedgerError."""
        for number, payload, *_ in items:
            file = self._directory / f"{number:0{DIGITS}}"
            try:
                self._write(file, payload)
            except OSError as error:
                raise LedgerError(f"{file} cannot be written: {error.strerror}") from error
        sync_directory(self._directory)

    def _write(self, file: Path, payload: bytes) -> None:
        try:
            with self._unfinished.open("wb") as out:
                out.write(payload)
                out.flush()
                os.fdatasync(out.fileno())
            os.link(self._unfinished, file)
        except FileExistsError as error:
            if not file.is_file() or file.read_bytes() != payload:
                raise LedgerError(
                    f"{file} has different content; choose another directory, so that nothing is lost"
                ) from error
        finally:
            self._unfinished.unlink(missing_ok=True)

    def how(self, many: str) -> str:
        """Describes the files after an interrupt, and how to continue."""
        return f"{self._directory} has some of the {many}, each of them complete; {again()}"


F = TypeVar("F", bound=Callable[..., Any])
P = TypeVar("P")

Item = Entry | Record
"""An item; its number and its payload are the first fields."""

STANDARD_OUTPUT = Path("-")


@dataclass(frozen=True, slots=True)
class Kind(Generic[P]):
    """A kind of page: how to get its items, and the words for them."""

    one: str
    many: str
    items: Callable[[P], Iterable[Item]]
    payloads: Callable[[P], bytes | memoryview]
    last: Callable[[P], int]
    json_line: Callable[[Any], bytes]


class Printer(Generic[P]):
    """Prints pages and tracks its progress, because an interrupt may come in the middle of a page.

    `output` is a new file, which gets its name only when it is complete, or an existing directory, which gets one file
    per payload. Raises UsageError for options that exclude each other, and LedgerError for a file that exists.
    """

    def __init__(self, kind: Kind[P], output: Path | None = None, *, raw: bool, as_json: bool) -> None:
        if raw and as_json:
            raise click.UsageError(f"--raw and --json are two ways to print {kind.many}; choose one")
        self._kind, self._raw, self._as_json = kind, raw, as_json
        self.begin(0)
        self._output = None if output == STANDARD_OUTPUT else output
        self._files: PayloadFiles | None = None
        self._out: IO[bytes] = sys.stdout.buffer
        if self._output is not None and self._output.is_dir():
            if as_json:
                raise click.UsageError(
                    f"--json prints lines, and a directory gets a file for each {kind.one}; choose one"
                )
            self._files = PayloadFiles(self._output)
        elif self._output is not None:
            check_is_new(self._output)

    def begin(self, first: int) -> None:
        """Sets the first item. `next` is the first one that may not have been printed."""
        self._first = self.next = first

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Writes within the block; the file appears once the block ends without an error."""
        into = nullcontext(self._out) if self._output is None or self._files else whole_file(self._output)
        with into as self._out:
            yield

    @property
    def is_on_standard_output(self) -> bool:
        return self._output is None

    @property
    def is_any(self) -> bool:
        """Whether anything has been printed."""
        return self.next != self._first

    def write(self, page: P) -> None:
        """Prints a page."""
        if self._files:
            self._files.write(self._kind.items(page))
        elif self._raw:
            self._out.write(self._kind.payloads(page))
        else:
            self._out.writelines(self._lines(page))
        self.next = self._kind.last(page) + 1

    def write_now(self, page: P) -> None:
        """Prints a page and flushes it."""
        self.write(page)
        self._out.flush()

    def _lines(self, page: P) -> Iterator[bytes]:
        """Yields lines; each counts as printed once the next one is requested."""
        line_of = self._line_of()
        for item in self._kind.items(page):
            yield line_of(item)
            self.next = item[0] + 1

    def _line_of(self) -> Callable[[Item], bytes]:
        if self._as_json:
            return self._kind.json_line
        return _shown_line if self._out.isatty() else _plain_line

    def how(self) -> str:
        """Describes, when the command is stopped, which items have been printed, and how to continue."""
        if self._files:
            return self._files.how(self._kind.many)
        if self._output is not None:
            return f"{self._output} was not written; {again()}"
        if not self.is_any:
            return f"perhaps no {self._kind.one} was printed; {again()}"
        printed = f"the {self._kind.many} up to {self.next - 1} are printed, perhaps more"
        return f"{printed}; go on with --first {self.next}"


def _entry_json_line(entry: Entry) -> bytes:
    return b'{"entry_id":%d,"payload_base64":"%s"}\n' % (entry.entry_id, base64.b64encode(entry.payload))


ENTRIES: Kind[Columns] = Kind(
    "entry", "entries", entries_of, lambda page: page.payload, lambda page: page.last_entry, _entry_json_line
)


def _shown_line(item: Item) -> bytes:
    return f"{item[0]}\t{shown_bytes(item[1])}\n".encode()


def _plain_line(item: Item) -> bytes:
    return b"%d\t%s\n" % (item[0], item[1])


def output_option(one: str) -> Callable[[F], F]:
    """Adds `output`: the output of a reading command."""
    return click.option(
        "--output",
        "-o",
        type=FilePath(),
        help="New file instead of standard output (-), or an existing directory. A file appears only when it is "
        f"complete; a directory gets one file per {one}, with its payload.",
    )


def is_typed(name: str) -> bool:
    """Returns whether an option of the running command was given, not left at its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
