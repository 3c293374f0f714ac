"""`bookledger log read` and `tail`: print a log's records."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from ledgers import Log, RecordBatch

from ..membership.rollback_check import rollback_check
from ..membership.targets import LogPlace, log_place
from ..messages.help import command
from ..messages.interruption import advise_when_stopped
from ..messages.outages import Outages
from ..options import (
    Finite,
    Moment,
    all_of,
    json_option,
    outage_option,
    raw_option,
)
from ..output import ProgressBar
from ..payloads.following import at_most, followed
from ..payloads.printing import Kind, Printer, output_option
from .json_records import json_line

RECORDS: Kind[RecordBatch] = Kind(
    "record",
    "records",
    RecordBatch.records,
    lambda batch: b"".join(batch.payloads),
    lambda batch: batch.positions[-1],
    json_line,
)


start_options = all_of(
    click.option("--first", type=click.IntRange(0), help="First position to print  [default: the oldest]"),
    click.option("--since", type=Moment(), help="Begin with records appended at this time or later."),
)
"""The options `first` and `since`, which set where to start."""


def check_start(first: int | None, since: datetime | None) -> None:
    """Raises UsageError if both are given."""
    if first is not None and since is not None:
        raise click.UsageError("--first and --since are mutually exclusive")


def start_of(log: Log, first: int | None, since: datetime | None) -> int:
    """Returns the first position to print."""
    if since is not None:
        return log.position_at(since)
    return log.first_position() if first is None else first


@command()
@log_place
@start_options
@click.option(
    "--last", type=click.IntRange(0), help="Last position to print  [default: the last confirmed one]"
)
@raw_option
@output_option("record")
@json_option
def read(
    place: LogPlace,
    first: int | None,
    since: datetime | None,
    last: int | None,
    raw: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Print the confirmed records of LOG, without disturbing its writer.

    Examples:
        bookledger log read orders
        bookledger log read orders --first 100 --last 199 --json
        bookledger log read orders --since 2026-01-31T12:00:00Z
    """
    check_start(first, since)
    if last is not None and first is not None and last < first:
        raise click.UsageError(f"--last {last} comes before --first {first}")
    printer = Printer(RECORDS, output, raw=raw, as_json=as_json)
    with advise_when_stopped(printer.how), printer.opened(), place.opened() as log:
        start = start_of(log, first, since)
        stop = log.end() if last is None else last + 1
        printer.begin(start)
        title, count = f"reading log {place.name}", max(0, stop - start)
        with ProgressBar(title, count, of="records", prints=printer.is_on_standard_output) as advance:
            for batch in log.batches(start, stop):
                printer.write(batch)
                advance(len(batch))


@command(headings={"Start": ("--first", "--since", "--new"), "End": ("--timeout", "--count")})
@log_place
@start_options
@click.option("--new", is_flag=True, help="Print only records appended from now on.")
@click.option(
    "--timeout",
    type=Finite(0),
    help="End after this many seconds without a new record; 0 checks once.",
)
@click.option("--count", type=click.IntRange(1), help="Stop after this many records.")
@outage_option
@raw_option
@json_option
def tail(
    place: LogPlace,
    first: int | None,
    since: datetime | None,
    new: bool,
    timeout: float | None,
    count: int | None,
    outage_seconds_max: float,
    raw: bool,
    as_json: bool,
) -> None:
    """Follow the records of LOG as they are confirmed, across changes of its writer. The command waits out outages.

    Examples:
        bookledger log tail orders
        bookledger log tail orders --new --json
        bookledger log tail orders --first 100 --timeout 30
    """
    check_start(first, since)
    if new and (first is not None or since is not None):
        raise click.UsageError("--new cannot be combined with --first or --since")
    printer = Printer(RECORDS, raw=raw, as_json=as_json)
    with advise_when_stopped(printer.how), place.opened() as log:
        printer.begin(log.end() if new else start_of(log, first, since))
        batches = followed(
            lambda start, seconds: log.tail_batches(start, timeout=seconds),
            log.end,
            rollback_check(place.metadata_uri),
            lambda: False,
            printer,
            timeout,
            Outages(outage_seconds_max),
        )
        for batch in at_most(count, batches):
            printer.write_now(batch)
