"""What commands print: records, tables, progress, and the steps of what they do."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from metadata.records.ledger_record import LedgerRecord

from .terminal import say, shown

Say = Callable[[str], None]

GAP = "  "
"""Between two columns."""


def narrator(*, quiet: bool) -> Say:
    """Prints each step of a long command, or nothing where only records are wanted."""
    return (lambda _: None) if quiet else (lambda line: say(f"  {line}"))


def print_record(fields: Mapping[str, Any], *, as_json: bool) -> None:
    """One record: a JSON line, or name and value a line; what is nested comes as names of their own."""
    if as_json:
        print_json(fields)
        return
    flat = dict(_flat(fields))
    width = max(map(len, flat), default=0)
    for name, value in flat.items():
        say(f"{name.replace('_', ' '):<{width}}  {_text(value)}")


def print_records(records: Sequence[Mapping[str, Any]], *, as_json: bool, none: str) -> None:
    """Several alike: JSON lines, or a table."""
    if as_json:
        for record in records:
            print_json(record)
    elif not records:
        say(none)
    else:
        names = list(dict.fromkeys(name for record in records for name in record))
        print_table(names, [[_text(record.get(name)) for name in names] for record in records])


def print_json(fields: Mapping[str, Any]) -> None:
    click.echo(json.dumps(fields, separators=(",", ":")))


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A line for each row. On a terminal that is too narrow for that, a block for each: nothing is ever cut."""
    heads = [title.replace("_", " ") for title in titles]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if sum(widths) + len(GAP) * (len(widths) - 1) > _columns():
        _print_blocks(heads, rows)
        return
    for row in (heads, *rows):
        say(GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_blocks(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    width = max(map(len, heads))
    for n, row in enumerate(rows):
        if n:
            say()
        for head, cell in zip(heads, row, strict=True):
            say(f"{head:<{width}}{GAP}{cell}")


def _columns() -> int:
    """Of the terminal; elsewhere a line may be as long as it likes."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def _flat(fields: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _text(value: Any) -> str:
    """Numbers as they are typed: an id that is printed can be given to the next command."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_text(one)}" for name, one in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "-"
    return shown(str(value))


def ledger_fields(record: LedgerRecord) -> dict[str, Any]:
    """A ledger as `list` and `show` print it."""
    return {
        "ledger_id": record.ledger_id,
        "state": record.state.value,
        "last_entry": record.last_entry,
        "length_bytes": record.length_bytes,
        "ensemble_size": record.shape.ensemble_size,
        "write_quorum": record.shape.write_quorum,
        "ack_quorum": record.shape.ack_quorum,
        "digest": record.digest_type.value.replace("_", "-"),
        "fragments": len(record.fragments),
        "created_ms": record.created_ms,
    }


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere; yields a function that is told how much more is done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)
