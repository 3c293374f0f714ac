"""`bookledger ledger read` and `tail`: print a ledger's entries to standard output."""

from __future__ import annotations

from pathlib import Path

import click

from ledgers import NoSuchEntry, ReadHandle

from ..membership.rollback_check import rollback_check
from ..membership.targets import LedgerPlace, connected, ledger_place
from ..messages.help import command
from ..messages.interruption import advise_when_stopped
from ..messages.outages import Outages
from ..options import Finite, first_option, json_option, outage_option, raw_option
from ..output import ProgressBar
from ..payloads.following import at_most, followed
from ..payloads.printing import ENTRIES, Printer, is_typed, output_option
from ..terminal import say


@command()
@ledger_place
@first_option
@click.option("--last", type=click.IntRange(0), help="Last entry to print  [default: the last confirmed one]")
@raw_option
@output_option("entry")
@click.option("--recover", is_flag=True, help="If the ledger is open, fence, recover and close it first.")
@json_option
def read(
    place: LedgerPlace,
    first: int,
    last: int | None,
    raw: bool,
    output: Path | None,
    recover: bool,
    as_json: bool,
) -> None:
    """Print a ledger's entries. An open ledger is read up to its last confirmed entry, without disturbing its writer.

    Examples:
        bookledger ledger read 7
        bookledger ledger read 7 --first 100 --last 199 --json
        bookledger ledger read 7 --raw --output copy.bin
        mkdir entries && bookledger ledger read 7 --output entries
    """
    if last is not None and last < first:
        raise click.UsageError(f"--last {last} comes before --first {first}")
    printer = Printer(ENTRIES, output, raw=raw, as_json=as_json)
    printer.begin(first)
    with advise_when_stopped(printer.how), printer.opened(), connected(place.metadata_uri) as client:
        reader = client.open_ledger(place.ledger_id, recovery=recover, password=place.password)
        _check_is_there(reader, first)
        end = reader.last_add_confirmed if last is None else last
        title, count = f"reading ledger {place.ledger_id}", max(0, end - first + 1)
        with ProgressBar(title, count, of="entries", prints=printer.is_on_standard_output) as advance:
            for page in reader.pages(first, last):
                printer.write(page)
                advance(len(page))


@command()
@ledger_place
@first_option
@click.option(
    "--timeout",
    type=Finite(0),
    help="Also end after this many seconds without a new entry; 0 checks once.",
)
@click.option("--count", type=click.IntRange(1), help="Also end after this many entries.")
@outage_option
@raw_option
@json_option
def tail(
    place: LedgerPlace,
    first: int,
    timeout: float | None,
    count: int | None,
    outage_seconds_max: float,
    raw: bool,
    as_json: bool,
) -> None:
    """Follow an open ledger's entries as they are confirmed, until it is closed. The command waits out outages.

    Examples:
        bookledger ledger tail 7
        bookledger ledger tail 7 --first 100 --timeout 30
        bookledger ledger tail 7 --count 1 --raw
    """
    printer = Printer(ENTRIES, raw=raw, as_json=as_json)
    printer.begin(first)
    with advise_when_stopped(printer.how), connected(place.metadata_uri) as client:
        reader = client.open_ledger(place.ledger_id, recovery=False, password=place.password)
        _warn_of_waiting(reader, first)
        pages = followed(
            lambda start, seconds: reader.tail_pages(start, timeout=seconds),
            reader.try_read_last_add_confirmed,
            rollback_check(place.metadata_uri),
            lambda: reader.is_closed,
            printer,
            timeout,
            Outages(outage_seconds_max),
        )
        for page in at_most(count, pages):
            printer.write_now(page)
        if reader.is_closed and not printer.is_any:
            _check_is_there(reader, first)


def _check_is_there(reader: ReadHandle, first: int) -> None:
    """Raises NoSuchEntry if the entry of an explicit --first does not exist, because nothing would be printed."""
    if first > reader.last_add_confirmed and is_typed("first"):
        raise NoSuchEntry(reader.record.ledger_id, first, reader.last_add_confirmed)


def _warn_of_waiting(reader: ReadHandle, first: int) -> None:
    """Warns if the requested entry is far ahead, because with a wrong --first the command would otherwise wait
    silently."""
    last = reader.last_add_confirmed
    if not reader.is_closed and first > last + 1:
        so_far = f"is confirmed up to entry {last}" if last >= 0 else "has no entry yet"
        say(f"ledger {reader.record.ledger_id} {so_far}: waiting for entry {first}", err=True)
