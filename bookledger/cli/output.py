"""Output of commands: records, tables, progress bars, steps, and whole files."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import IO, Any

import click

from bookie.disk.disk import sync_directory
from ledgers.errors import LedgerError
from metadata.records.ledger_record import LedgerRecord

from .messages.interruption import advise_when_stopped
from .messages.sizes import counts_bytes, format_bytes
from .terminal import say, shown

Say = Callable[[str], None]

GAP = "  "
"""Separates columns."""

WRAPPED_MIN = 16
"""Minimum width of a wrapped column."""

QUICK_SECONDS = 1.0
"""For work that is usually quick, no bar is shown until this much time has passed: a bar would only flash up."""

REDRAWN_SECONDS = 0.05
"""Minimum interval between updates of a bar: an update costs more than many small steps of the work."""


def narrator(*, quiet: bool) -> Say:
    """Returns a function that prints each step of a long command, or does nothing if only records are requested."""
    return (lambda _: None) if quiet else (lambda line: say(f"  {line}"))


def print_record(fields: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints one record: a JSON line, or a name and value per line; nested names are flattened."""
    if as_json:
        print_json(fields)
        return
    flat = dict(_flat(fields))
    width = max(map(len, flat), default=0)
    for name, value in flat.items():
        say(f"{name.replace('_', ' '):<{width}}  {_text(value, name)}")


def print_records(records: Sequence[Mapping[str, Any]], *, as_json: bool, none: str) -> None:
    """Prints records: JSON lines, or a table."""
    if as_json:
        for record in records:
            print_json(record)
    elif not records:
        say(none)
    else:
        names = list(dict.fromkeys(name for record in records for name in record))
        print_table(names, [[_text(record.get(name), name) for name in names] for record in records])


def print_json(fields: Mapping[str, Any]) -> None:
    click.echo(json.dumps(fields, separators=(",", ":")))


def print_line(fields: Mapping[str, Any], text: object, *, as_json: bool) -> None:
    """Prints a line: JSON for programs, or the text for people."""
    if as_json:
        print_json(fields)
    else:
        say(text)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a line per row. If the terminal is too narrow, the last column is wrapped, provided that WRAPPED_MIN
    columns are left for it; otherwise each row is printed as a block. Nothing is ever cut off."""
    heads = [title.replace("_", " ") for title in titles]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    before = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    last = min(widths[-1], _columns() - before)
    if last < min(widths[-1], WRAPPED_MIN):
        _print_blocks(heads, rows)
        return
    for *row, end in (heads, *rows):
        begin = "".join(f"{cell:<{width}}{GAP}" for cell, width in zip(row, widths, strict=False))
        for part in wrap(end, last) if len(end) > last else [end]:
            say(f"{begin}{part}".rstrip())
            begin = " " * before


def _print_blocks(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    width = max(map(len, heads))
    for n, row in enumerate(rows):
        if n:
            say()
        for head, cell in zip(heads, row, strict=True):
            say(f"{head:<{width}}{GAP}{cell}")


def _columns() -> int:
    """Returns the width of the terminal; without a terminal, lines may have any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def _flat(fields: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _text(value: Any, name: str = "") -> str:
    """Formats a value. Numbers are printed as users would type them, so that commands accept printed ids; only bytes
    get units."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and counts_bytes(name):
        return format_bytes(value)
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_text(one, name)}" for name, one in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "-"
    return shown(str(value))


def ledger_fields(record: LedgerRecord) -> dict[str, Any]:
    """Returns a ledger's fields as `list` and `show` print them."""
    return {
        "ledger_id": record.ledger_id,
        "state": record.state.value,
        "last_entry": record.last_entry,
        "length_bytes": record.length_bytes,
        **asdict(record.shape),
        "digest": record.digest_type.value.replace("_", "-"),
        "fragment_count": len(record.fragments),
        "created_at": iso(record.created_at),
        "closed_at": iso(record.closed_at),
        "created_ms": record.created_ms,
    }


def custom_fields(record: LedgerRecord) -> dict[str, Any]:
    """Returns custom metadata for programs. Values are bytes, so they are in base64."""
    custom = {name: base64.b64encode(value).decode() for name, value in record.custom_metadata.items()}
    return {"custom_metadata": custom}


def loss_fields(record: LedgerRecord) -> dict[str, Any]:
    """Returns the loss that was accepted when a ledger was closed without proof of its end; empty if none was."""
    loss = record.accepted_loss
    if loss is None:
        return {}
    fields = {
        "at": iso(loss.at),
        "by": loss.by,
        "last_entry": record.last_entry,
        "proven_through": loss.proven_through,
        "given_up": sorted(bookie.bookie_id for bookie in loss.missing),
        "to_fence": sorted(bookie.bookie_id for bookie in loss.to_fence),
    }
    return {"accepted_loss": fields}


def cold_fields(record: LedgerRecord) -> dict[str, Any]:
    """Returns the location of the ledger's copy in an object store, if there is one."""
    copy = record.cold
    if copy is None:
        return {}
    fields = {
        "object_store": copy.url,
        "objects": [copy.name_of(part) for part in range(len(copy.part_starts))],
        "object_bytes": copy.size_bytes,
        "copied_at": iso(datetime.fromtimestamp(copy.at_ms / 1000, UTC)) if copy.is_stored else None,
        "on_bookies": not record.has_no_ensembles,
    }
    return {"cold": fields}


def iso(at: datetime | None) -> str | None:
    """Formats a time in UTC."""
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ProgressBar:
    """A progress bar on stderr, with the rate, and with the time left if the total is known. If stderr is not a
    terminal, nothing is shown.

    Enter it when the work begins, and call it with each increment, in bytes or in the unit given by `of`; if `of` is
    "", the bar shows only the time. `prints`: the work prints to standard output; if that is a terminal, there is no
    bar. `is_mostly_quick`: the bar appears after QUICK_SECONDS, from a timer, because the work may hang.
    """

    def __init__(
        self,
        title: str,
        total: int | None,
        *,
        of: str = "bytes",
        prints: bool = False,
        is_mostly_quick: bool = False,
    ) -> None:
        self.done = 0
        self._title, self._total, self._of, self._prints = title, total, of, prints
        self._advance_bar: Callable[[int], object] | None = None
        self._bar_position = 0
        self._next_at = 0.0
        self._lock = threading.Lock()
        self._is_over = False
        self._bar = ExitStack()
        self._timer = threading.Timer(QUICK_SECONDS, self._draw) if is_mostly_quick else None

    def __enter__(self) -> ProgressBar:
        if not sys.stderr.isatty() or (self._prints and sys.stdout.isatty()):
            self._timer = None
        elif self._timer is None:
            self._draw()
        else:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._is_over = True
            self._bar.close()

    def __call__(self, amount: int) -> None:
        self.done += amount
        if self._advance_bar is None or (now := time.monotonic()) < self._next_at:
            return
        self._next_at = now + REDRAWN_SECONDS
        self._advance_bar(self.done - self._bar_position)
        self._bar_position = self.done

    def _draw(self) -> None:
        with self._lock:
            if not self._is_over:
                self._advance_bar = self._bar.enter_context(_bar(self._title, self._total, self._of))


def waiting(title: str) -> ProgressBar:
    """Returns a progress bar for work that is usually quick; it shows only the time."""
    return ProgressBar(title, None, of="", is_mostly_quick=True)


@contextmanager
def long_work(title: str, how: Callable[[], str]) -> Iterator[None]:
    """Shows the bar of `waiting` inside the block; if the work is stopped, prints the advice that `how` returns."""
    with advise_when_stopped(how), waiting(title):
        yield


@contextmanager
def _bar(title: str, total: int | None, of: str) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f} {of}/s")

    sizes = (DownloadColumn(binary_units=True), TransferSpeedColumn())
    counts = (MofNCompleteColumn(), RateColumn()) if of else ()
    ends = (
        (TimeElapsedColumn(),) if total is None else (TimeRemainingColumn(compact=True), TextColumn("left"))
    )
    columns = (TextColumn("{task.description}"), BarColumn(20), *(sizes if of == "bytes" else counts), *ends)
    is_seen = sys.stdout.isatty()  # redirected output must not appear on the bar's terminal
    with Bar(*columns, console=Console(stderr=True), transient=True, redirect_stdout=is_seen) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)


def check_is_new(file: Path) -> None:
    """Raises LedgerError, before any work is done, if the file exists or its directory does not."""
    if not file.parent.is_dir():
        raise LedgerError(f"there is no directory {file.parent}")
    if file.exists():
        raise LedgerError(f"{file} already exists; choose another name, so that nothing is lost")


@contextmanager
def whole_file(file: Path) -> Iterator[IO[bytes]]:
    """Writes a new file atomically: the file gets its name only when it is complete and on disk, and never replaces
    another."""
    try:
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.name, suffix=".part") as unfinished:
            yield unfinished.file
            unfinished.flush()
            os.fdatasync(unfinished.fileno())
            os.link(unfinished.name, file)
        sync_directory(file.parent)
    except OSError as error:
        raise LedgerError(f"{file} cannot be written: {error.strerror}") from error
