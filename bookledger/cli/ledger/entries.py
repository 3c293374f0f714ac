"""`bookledger ledger read` and `tail`: a ledger's entries on standard output."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from typing import Any

import click

from ledgers import Columns, Entry, LedgerClient
from ledgers.reading.batch_read import entries_of

from ..options import first_option, json_option, ledger_argument, metadata_option, password_option, raw_option
from ..output import print_json, progress
from ..terminal import shown_bytes


@click.command()
@metadata_option
@password_option
@ledger_argument
@first_option
@click.option("--last", type=click.IntRange(0), help="Entry to end with  [default: the last confirmed one]")
@raw_option
@click.option("--recover", is_flag=True, help="Fence, recover and close the ledger first if it is open.")
@json_option
def read(
    metadata_uri: str,
    password: bytes,
    ledger_id: int,
    first: int,
    last: int | None,
    raw: bool,
    recover: bool,
    as_json: bool,
) -> None:
    """Print a ledger's entries. An open one is read as far as it is confirmed, without disturbing its writer."""
    write = _printer(raw=raw, as_json=as_json)
    with LedgerClient(metadata_uri) as client:
        reader = client.open_ledger(ledger_id, recovery=recover, password=password)
        with progress(f"reading ledger {ledger_id}", reader.record.length_bytes) as advance:
            for page in reader.pages(first, last):
                write(page)
                advance(len(page.payload))


@click.command()
@metadata_option
@password_option
@ledger_argument
@first_option
@raw_option
@json_option
def tail(metadata_uri: str, password: bytes, ledger_id: int, first: int, raw: bool, as_json: bool) -> None:
    """Follow an open ledger's entries as they are confirmed, until it is closed."""
    write = _printer(raw=raw, as_json=as_json)
    with LedgerClient(metadata_uri) as client:
        reader = client.open_ledger(ledger_id, recovery=False, password=password)
        for page in reader.tail_pages(first):
            write(page)
            sys.stdout.buffer.flush()


def _printer(*, raw: bool, as_json: bool) -> Callable[[Columns], Any]:
    """Prints a page."""
    if raw and as_json:
        raise click.UsageError("--raw and --json are two ways to print an entry; take one")
    if raw:
        return lambda page: sys.stdout.buffer.write(page.payload)
    one = _line_printer(as_json=as_json)

    def lines(page: Columns) -> None:
        for entry in entries_of(page):
            one(entry)

    return lines


def _line_printer(*, as_json: bool) -> Callable[[Entry], Any]:
    out = sys.stdout.buffer
    if as_json:
        return lambda entry: print_json(
            {"entry_id": entry.entry_id, "payload_base64": base64.b64encode(entry.payload).decode()}
        )
    if sys.stdout.isatty():
        return lambda entry: click.echo(f"{entry.entry_id}\t{shown_bytes(entry.payload)}")
    return lambda entry: out.write(b"%d\t%s\n" % (entry.entry_id, entry.payload))
