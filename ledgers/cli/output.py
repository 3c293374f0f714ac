"""What commands print, and the options they share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from metadata.ledger_record import LedgerRecord

F = TypeVar("F", bound=Callable[..., Any])


def metadata_option(function: F) -> F:
    return click.option(
        "--metadata",
        "metadata_uri",
        metavar="URI",
        envvar="BOOKLEDGER_METADATA",
        required=True,
        help="etcd://HOST:PORT/PREFIX or sqlite:///PATH; also from BOOKLEDGER_METADATA.",
    )(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(function)


def print_record(fields: Mapping[str, Any], *, as_json: bool) -> None:
    """One record: a JSON line, or name and value a line."""
    if as_json:
        print_json(fields)
        return
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {_text(value)}")


def print_records(records: Sequence[Mapping[str, Any]], *, as_json: bool, none: str) -> None:
    """Several alike: JSON lines, or a table."""
    if as_json:
        for record in records:
            print_json(record)
    elif not records:
        click.echo(none)
    else:
        print_table(list(records[0]), [[_text(value) for value in record.values()] for record in records])


def print_json(fields: Mapping[str, Any]) -> None:
    click.echo(json.dumps(fields, separators=(",", ":")))


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in titles:
        table.add_column(title.replace("_", " "))
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


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
        "digest": record.digest_type.value,
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
