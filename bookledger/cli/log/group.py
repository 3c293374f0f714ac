"""`bookledger log`: commands on whole logs; the other commands have their own modules."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from ledgers import LogIncomplete, NoSuchLog, Retention

from ..membership.cluster_survey import check_is_cluster
from ..membership.targets import LogPlace, connected, log_place
from ..messages.help import group
from ..messages.interruption import advise_when_stopped, again, nothing_changed
from ..messages.sizes import format_bytes
from ..options import Moment, json_option, log_argument, log_password_option, metadata_option, yes_option
from ..output import ProgressBar, long_work, print_json, print_record, print_records
from ..terminal import confirm
from .append import append
from .cursors import cursors, seek
from .fields import log_fields, segment_fields, settings_fields, sharing_fields
from .forks import fork, restore
from .new_log import HEADING, new_log_options
from .records import read, tail
from .retention import (
    HEADING as RETENTION_HEADING,
)
from .retention import (
    NAMES,
    made,
    retention,
    retention_fields,
    retention_options,
)
from .sets import log_set


@group(
    headings={
        "Records": ("append", "read", "tail"),
        "Cursors": ("cursors", "seek"),
        "Logs": (
            "create",
            "list",
            "show",
            "fork",
            "restore",
            "retention",
            "truncate",
            "hold",
            "rename",
            "delete",
            "set",
        ),
    }
)
def log() -> None:
    """Write and read logs: named sequences of records at consecutive positions, with one writer at a time.

    Examples:
        seq 1000 | bookledger log append --create orders
        bookledger log tail orders
        bookledger log truncate orders 500
    """


log.add_command(append)
log.add_command(read)
log.add_command(tail)
log.add_command(cursors)
log.add_command(seek)
log.add_command(fork)
log.add_command(restore)
log.add_command(retention)
log.add_command(log_set)


@log.command(headings={**HEADING, **RETENTION_HEADING})
@metadata_option
@log_password_option
@new_log_options
@retention_options
@log_argument
@json_option
def create(metadata_uri: str, name: str, as_json: bool, **settings: Any) -> None:
    """Create LOG. Its segments are ledgers, which all share these settings.

    Examples:
        bookledger log create orders
        bookledger log create audit --ensemble 5 --write-quorum 3 --roll-seconds 3600
        bookledger log create events --age 7d --bytes 10GiB
    """
    retained = made(Retention(), {name: settings.pop(name) for name in NAMES})
    with connected(metadata_uri) as client:
        try:
            new = client.create_log(name, retention=retained, **settings)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        print_record(log_fields(new.name, new.record), as_json=as_json)


@log.command("list")
@metadata_option
@json_option
def list_(metadata_uri: str, as_json: bool) -> None:
    """List all logs by name, each with the set to which it belongs.

    Examples:
        bookledger log list
    """
    bar = ProgressBar("looking at logs", None, of="logs", prints=as_json, is_mostly_quick=True)
    rows = []
    with advise_when_stopped(nothing_changed), connected(metadata_uri) as client, bar as advance:
        for name, record in client.list_logs():
            advance(1)
            rows.append({**log_fields(name, record), "set": record.log_set})
    if not rows:
        check_is_cluster(metadata_uri)
    print_records(rows, as_json=as_json, none="there are no logs")


@log.command()
@log_place
@json_option
def show(place: LogPlace, as_json: bool) -> None:
    """Show one log, and the ledgers of its segments.

    Examples:
        bookledger log show orders
    """
    with place.opened() as found:
        fields = {
            **log_fields(place.name, found.record),
            **settings_fields(found.record),
            **retention_fields(found.retained()),
            **sharing_fields(found.sharing()),
        }
        segments = [segment_fields(segment) for segment in found.segments()]
    if as_json:
        print_json({**fields, "segments": segments})
        return
    print_record(fields, as_json=False)
    print_records(segments, as_json=False, none="it has no segment yet")


@log.command()
@log_place
@click.argument("position", type=click.IntRange(0), required=False)
@click.option(
    "--before", type=Moment(), help="Instead of POSITION: delete the records appended before this time."
)
@yes_option
@json_option
def truncate(
    place: LogPlace, position: int | None, before: datetime | None, yes: bool, as_json: bool
) -> None:
    """Delete the records of LOG before POSITION, for good. Its writer and its readers continue.

    Examples:
        bookledger log truncate orders 500
        bookledger log truncate --yes orders --before 2026-01-01
    """
    if (position is None) == (before is None):
        raise click.UsageError("give POSITION, or --before TIME")
    with place.opened() as found:
        first = found.first_position()
        to = found.position_at(before) if before is not None else position
        assert to is not None
        if first < to <= found.end() and not yes:  # outside this range, `truncate` deletes nothing or refuses
            confirm(f"delete {to - first} records of log {place.name}, from position {first} to {to - 1}?")
        found.truncate(to)
        fields = {"log": place.name, "first_position": found.record.first_position}
    print_record({**fields, "records": max(0, to - first)}, as_json=as_json)


@log.command()
@log_place
@click.option("--end", is_flag=True, help="End the hold.")
@json_option
def hold(place: LogPlace, end: bool, as_json: bool) -> None:
    """Put LOG under legal hold: it is not truncated or deleted until the hold ends. Its writer and readers continue.

    Examples:
        bookledger log hold orders
        bookledger log hold orders --end
    """
    with place.opened() as held:
        held.set_legal_hold(not end)
    print_record({"log": place.name, "legal_hold": not end}, as_json=as_json)


@log.command()
@metadata_option
@log_argument
@click.argument("new_name", metavar="NEW")
@json_option
def rename(metadata_uri: str, name: str, new_name: str, as_json: bool) -> None:
    """Rename LOG to NEW. Its writer and its readers continue.

    Examples:
        bookledger log rename orders orders-2025
    """
    with connected(metadata_uri) as client:
        client.rename_log(name, new_name)
    print_record({"log": new_name, "was": name}, as_json=as_json)


@log.command()
@log_place
@yes_option
@json_option
def delete(place: LogPlace, yes: bool, as_json: bool) -> None:
    """Delete LOG with all its ledgers, for good. Its writer is fenced.

    Examples:
        bookledger log delete orders
    """
    name = place.name
    with connected(place.metadata_uri) as client:
        with suppress(NoSuchLog, LogIncomplete):  # completes the deletion of a log that is partly deleted
            sharing = client.log(name, password=place.password).sharing()
            if not yes:
                frees = f"{format_bytes(sharing.own_bytes)} of each copy are freed"
                others = ", ".join(dict.fromkeys(one.log for one in sharing.logs))
                stays = f", {format_bytes(sharing.shared_bytes)} stay for {others}" if others else ""
                confirm(f"delete log {name} and everything in it ({frees}{stays})?")
        with long_work(f"deleting log {name}", lambda: f"log {name} may be partly deleted; {again()}"):
            client.delete_log(name, password=place.password)
    print_record({"log": name, "deleted": True}, as_json=as_json)
