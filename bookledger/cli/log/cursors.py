"""`bookledger log cursors` and `seek`: show the positions of a log's readers, and move them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import click

from ledgers import LedgerError, Log, NoSuchCursor
from ledgers.logs.cursors.start_position import Where
from metadata import keys
from metadata.records.coordination.cursor_record import CursorRecord

from ..membership.targets import LogPlace, log_place
from ..messages.help import command
from ..options import Moment, json_option
from ..output import print_record, print_records
from .fields import time_field


@command()
@log_place
@json_option
def cursors(place: LogPlace, as_json: bool) -> None:
    """Show the cursors of LOG, and the lag of each.

    Examples:
        bookledger log cursors orders
    """
    with place.opened() as log:
        rows = [_fields(log, cursor, record) for cursor, record in log.cursors()]
    print_records(rows, as_json=as_json, none=f"log {place.name} has no cursors")


@command()
@log_place
@click.argument("cursor")
@click.argument("position", type=click.IntRange(0), required=False)
@click.option("--to", type=click.Choice(["beginning", "end"]), help="Move it here instead of to POSITION.")
@click.option(
    "--at", type=Moment(), help="Instead of POSITION: the first record appended at this time or later."
)
@click.option("--create", is_flag=True, help="Create CURSOR if the log has none of this name.")
@json_option
def seek(
    place: LogPlace,
    cursor: str,
    position: int | None,
    to: Literal["beginning", "end"] | None,
    at: datetime | None,
    create: bool,
    as_json: bool,
) -> None:
    """Move CURSOR of LOG backwards or forwards to POSITION. Its consumer continues from there within seconds.

    Examples:
        bookledger log seek orders billing 500
        bookledger log seek orders billing --at 2026-01-31T12:00:00Z
        bookledger log seek orders reports --create --to end
    """
    where: list[Where] = [one for one in (position, to, at) if one is not None]
    if len(where) != 1:
        raise click.UsageError("give exactly one of POSITION, --to and --at")
    if not keys.is_name(cursor):
        raise click.UsageError(f"{cursor!r} is not a valid cursor name")
    with place.opened() as log:
        if not create and cursor not in dict(log.cursors()):
            raise NoSuchCursor(place.name, cursor)
        with log.cursor(cursor, start=where[0]) as opened:
            opened.seek(where[0])
            fields = _fields(log, cursor, opened.record)
    print_record({"log": place.name, **fields}, as_json=as_json)


def _fields(log: Log, name: str, record: CursorRecord) -> dict[str, Any]:
    """Returns the fields of a cursor. Its lag is None if a segment cannot be read; `problem` gives the reason."""
    fields: dict[str, Any] = {"cursor": name, "position": record.position}
    lags = ("lag_records", "lag_bytes", "lag_seconds", "truncated")
    try:
        lag = log.lag(record.position)
    except LedgerError as error:
        fields |= {**dict.fromkeys(lags), "problem": str(error)}
    else:
        values = (lag.records, lag.bytes, round(lag.seconds, 3), lag.truncated)
        fields |= {**dict(zip(lags, values, strict=True)), "problem": None}
    return {**fields, "consumer": record.consumer or None, "changed_at": time_field(record.changed_ms * 1000)}
