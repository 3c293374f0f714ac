"""`bookledger ledger read` and `tail`: prints a ledger's entries to standard output."""

from __future__ import annotations

import base64
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import click
from click.core import ParameterSource

from ledgers import Columns, Entry, LedgerClient, NoSuchEntry, ReadHandle
from ledgers.errors import DigestMismatch, EntryUnreadable, MetadataUnavailable, NotEnoughAnswers
from ledgers.reading.batch_read import entries_of

from ..config.clients import client_config
from ..options import (
    FilePath,
    Finite,
    first_option,
    json_option,
    ledger_argument,
    metadata_option,
    outage_option,
    password_option,
    raw_option,
)
from ..output import Progress, check_is_new, whole_file
from ..terminal import say, shown_bytes
from ..told.help import command
from ..told.interruption import again, told_when_stopped
from ..told.outages import PAUSE_SECONDS, Outages
from .entry_files import EntryFiles
from .remedies import remedies

LOOK_SECONDS = 10.0
"""After so long without news a tailed ledger's bookies are probed: perhaps none answers."""

STANDARD_OUTPUT = Path("-")


@command()
@metadata_option
@password_option
@ledger_argument
@first_option
@click.option("--last", type=click.IntRange(0), help="Entry to end with  [default: the last confirmed one]")
@raw_option
@click.option(
    "--output",
    "-o",
    type=FilePath(),
    help="A new file instead of standard output, which is -; it is there only when it is whole. Or a directory that is "
    "there: a file for each entry, with its payload.",
)
@click.option("--recover", is_flag=True, help="Fence, recover and close the ledger first if it is open.")
@json_option
def read(
    metadata_uri: str,
    password: bytes,
    ledger_id: int,
    first: int,
    last: int | None,
    raw: bool,
    output: Path | None,
    recover: bool,
    as_json: bool,
) -> None:
    """Print a ledger's entries. An open one is read as far as it is confirmed, without disturbing its writer.

    Examples:
        bookledger ledger read 7
        bookledger ledger read 7 --first 100 --last 199 --json
        bookledger ledger read 7 --raw --output copy.bin
        mkdir entries && bookledger ledger read 7 --output entries
    """
    if last is not None and last < first:
        raise click.UsageError(f"--last {last} comes before --first {first}")
    output = None if output == STANDARD_OUTPUT else output
    files = EntryFiles(output) if output is not None and output.is_dir() else None
    if files and as_json:
        raise click.UsageError("--json prints lines, and a directory gets a file for each entry; take one")
    if output is not None and files is None:
        check_is_new(output)
    into = whole_file(output) if output is not None and files is None else nullcontext(sys.stdout.buffer)
    printed = _Printed(first)
    how = (
        files.how if files else printed.how if output is None else lambda: f"{output} is not there; {again()}"
    )
    with (
        told_when_stopped(how),
        remedies(metadata_uri, ledger_id),
        into as out,
        LedgerClient(metadata_uri, config=client_config()) as client,
    ):
        write = files.write if files else _printer(out, printed, raw=raw, as_json=as_json)
        reader = client.open_ledger(ledger_id, recovery=recover, password=password)
        _check_is_there(reader, first)
        end = reader.last_add_confirmed if last is None else last
        title, count = f"reading ledger {ledger_id}", max(0, end - first + 1)
        with Progress(title, count, of="entries", prints=output is None) as advance:
            for page in reader.pages(first, last):
                write(page)
                printed.note(page)
                advance(len(page))


@command()
@metadata_option
@password_option
@ledger_argument
@first_option
@click.option(
    "--timeout",
    type=Finite(0),
    help="End, too, once nothing new came for so many seconds; 0 asks once.",
)
@click.option("--count", type=click.IntRange(1), help="End, too, after so many entries.")
@outage_option
@raw_option
@json_option
def tail(
    metadata_uri: str,
    password: bytes,
    ledger_id: int,
    first: int,
    timeout: float | None,
    count: int | None,
    outage_seconds_max: float,
    raw: bool,
    as_json: bool,
) -> None:
    """Follow an open ledger's entries as they are confirmed, until it is closed. Outages are waited for.

    Examples:
        bookledger ledger tail 7
        bookledger ledger tail 7 --first 100 --timeout 30
        bookledger ledger tail 7 --count 1 --raw
    """
    printed = _Printed(first)
    write = _printer(sys.stdout.buffer, printed, raw=raw, as_json=as_json)
    with (
        told_when_stopped(printed.how),
        remedies(metadata_uri, ledger_id),
        LedgerClient(metadata_uri, config=client_config()) as client,
    ):
        reader = client.open_ledger(ledger_id, recovery=False, password=password)
        _tell_of_waiting(reader, first)
        for page in _at_most(count, _tailed(reader, printed, timeout, Outages(outage_seconds_max))):
            write(page)
            sys.stdout.buffer.flush()
            printed.note(page)
        if reader.is_closed and not printed.is_any:
            _check_is_there(reader, first)


def _tailed(
    reader: ReadHandle, printed: _Printed, timeout: float | None, outages: Outages
) -> Iterator[Columns]:
    """Yields pages from the first entry not printed yet, with retries through outages of the metadata or of bookies."""
    news_at = time.monotonic()
    while True:
        left = math.inf if timeout is None else news_at + timeout - time.monotonic()
        try:
            for page in reader.tail_pages(printed.next_entry, timeout=max(0, min(left, LOOK_SECONDS))):
                outages.is_over()
                yield page
                news_at = time.monotonic()
            if reader.is_closed or (timeout is not None and time.monotonic() >= news_at + timeout):
                return
            reader.try_read_last_add_confirmed()  # tailing stays silent if no bookie answers
            outages.is_over()
        except (MetadataUnavailable, NotEnoughAnswers, EntryUnreadable) as error:
            if isinstance(error, DigestMismatch):
                raise
            outages.failed(str(error), f"go on with --first {printed.next_entry}")
            time.sleep(PAUSE_SECONDS)


def _at_most(count: int | None, pages: Iterator[Columns]) -> Iterator[Columns]:
    """The pages to the so-manieth entry; all of them where it is None."""
    left = math.inf if count is None else count
    for page in pages:
        yield page if len(page) <= left else page.cut(0, int(left))
        left -= len(page)
        if left <= 0:
            return


def _check_is_there(reader: ReadHandle, first: int) -> None:
    """Raises NoSuchEntry if an explicit --first does not exist: nothing would be printed."""
    if first > reader.last_add_confirmed and _is_typed("first"):
        raise NoSuchEntry(reader.record.ledger_id, first, reader.last_add_confirmed)


def _tell_of_waiting(reader: ReadHandle, first: int) -> None:
    """Warns that the requested entry is far ahead: by mistake, the command would wait in silence."""
    last = reader.last_add_confirmed
    if not reader.is_closed and first > last + 1:
        so_far = f"is confirmed to entry {last}" if last >= 0 else "has no entry yet"
        say(f"ledger {reader.record.ledger_id} {so_far}: waiting for entry {first}", err=True)


def _is_typed(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


class _Printed:
    """Tracks what was written to standard output: an interrupt may come in the middle of a page."""

    def __init__(self, first: int) -> None:
        self._first = self._next = first

    @property
    def is_any(self) -> bool:
        return self._next != self._first

    @property
    def next_entry(self) -> int:
        """The first entry that may not have been printed."""
        return self._next

    def note(self, page: Columns) -> None:
        self._next = page.last_entry + 1

    def lines(self, page: Columns, line_of: Callable[[Entry], bytes]) -> Iterator[bytes]:
        """Yields lines; each counts as printed once the next one is requested."""
        for entry in entries_of(page):
            yield line_of(entry)
            self._next = entry.entry_id + 1

    def how(self) -> str:
        if not self.is_any:
            return f"no entry is printed for certain; {again()}"
        return f"the entries to {self._next - 1} are printed, perhaps more; go on with --first {self._next}"


def _printer(out: IO[bytes], printed: _Printed, *, raw: bool, as_json: bool) -> Callable[[Columns], Any]:
    """Returns a function that prints a page."""
    if raw and as_json:
        raise click.UsageError("--raw and --json are two ways to print an entry; take one")
    if raw:
        return lambda page: out.write(page.payload)
    line_of = _json_line if as_json else _shown_line if out.isatty() else _plain_line
    return lambda page: out.writelines(printed.lines(page, line_of))


def _json_line(entry: Entry) -> bytes:
    return b'{"entry_id":%d,"payload_base64":"%s"}\n' % (entry.entry_id, base64.b64encode(entry.payload))


def _shown_line(entry: Entry) -> bytes:
    return f"{entry.entry_id}\t{shown_bytes(entry.payload)}\n".encode()


def _plain_line(entry: Entry) -> bytes:
    return b"%d\t%s\n" % (entry.entry_id, entry.payload)
