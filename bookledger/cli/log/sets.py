"""`bookledger log set`: sets of logs, over which keys are spread."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

from ledgers import LedgerError, Log, NoSuchLogSet, Retention
from metadata.records.logs.log_set_record import LOGS_MAX, LogSetRecord
from metadata.records.logs.retention import retention_to_dict

from ..membership.targets import LogPlace, connected
from ..messages.help import command, group
from ..messages.interruption import again
from ..options import json_option, log_password_option, made_of, metadata_option, yes_option
from ..output import long_work, print_json, print_record, print_records
from ..terminal import confirm
from .fields import log_fields
from .new_log import HEADING, new_log_options
from .retention import HEADING as RETENTION_HEADING
from .retention import made, retention_options

set_argument = click.argument("name", metavar="SET")
set_place = made_of("place", LogPlace, metadata_option, log_password_option, set_argument)
logs_argument = click.argument("logs", type=click.IntRange(1, LOGS_MAX))


@group("set")
def log_set() -> None:
    """Create, show, change and delete sets of logs. The logs of SET are SET.0, SET.1 and so on.

    Examples:
        bookledger log set create orders 4
        bookledger log set show orders
    """


@command(headings=HEADING)
@metadata_option
@log_password_option
@new_log_options
@set_argument
@logs_argument
@json_option
def create(metadata_uri: str, name: str, logs: int, as_json: bool, **settings: Any) -> None:
    """Create SET with this many LOGS. All logs of a set, including those added later, share these settings.

    Examples:
        bookledger log set create orders 4
        bookledger log set create events 16 --ensemble 5 --roll-seconds 3600
    """
    with connected(metadata_uri) as client:
        there = dict(client.list_log_sets()).get(name)
        if there is not None and not there.is_unsettled:
            raise LedgerError(f"a set of logs named {name!r} already exists")
        try:
            found = client.log_set(name, logs, **settings)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        print_record(_fields(name, found.record), as_json=as_json)


@command()
@set_place
@json_option
def show(place: LogPlace, as_json: bool) -> None:
    """Show SET and its logs.

    `used_after`: a consumer group reads this log only after it has read the named log up to that position, because the
    keys of this log were previously in the named log.

    Examples:
        bookledger log set show orders
    """
    with connected(place.metadata_uri) as client:
        found = client.log_set(place.name, password=place.password)
        fields = _fields(place.name, found.record)
        logs = [_log_fields(place.name, found.record, n, found.log(n)) for n in range(found.record.logs)]
    if as_json:
        print_json({**fields, "logs": logs})
        return
    print_record(fields, as_json=False)
    print_records(logs, as_json=False, none="it has no logs")


@command()
@set_place
@logs_argument
@json_option
def grow(place: LogPlace, logs: int, as_json: bool) -> None:
    """Spread the keys of SET over this many LOGS from now on. The number must be a multiple of the current one. Its
    writer is fenced.

    Examples:
        bookledger log set grow orders 8
    """
    with connected(place.metadata_uri) as client:
        found = client.log_set(place.name, password=place.password)
        how = f"set {place.name} may be growing; its next writer, or repeating the command, completes the expansion"
        try:
            with long_work(f"growing set {place.name}", lambda: how):
                found.grow(logs)
        except ValueError as error:
            raise LedgerError(str(error)) from None
        fields = _fields(place.name, found.record)
    print_record(fields, as_json=as_json)


@command()
@set_place
@yes_option
@json_option
def delete(place: LogPlace, yes: bool, as_json: bool) -> None:
    """Delete SET with all its logs, for good. Its writer is fenced, and its consumers end with an error.

    Examples:
        bookledger log set delete orders
    """
    name = place.name
    with connected(place.metadata_uri) as client:
        with suppress(NoSuchLogSet):  # completes the deletion of a set that is partly deleted
            record = client.log_set(name, password=place.password).record
            if not yes:
                confirm(f"delete set {name}, its {record.logs} logs and everything in them?")
        with long_work(f"deleting set {name}", lambda: f"set {name} may be partly deleted; {again()}"):
            client.delete_log_set(name, password=place.password)
    print_record({"set": name, "deleted": True}, as_json=as_json)


@command(headings=RETENTION_HEADING)
@set_place
@retention_options
@click.option(
    "--none", is_flag=True, help="Remove all retention settings except those given by other options."
)
@json_option
def retention(place: LogPlace, none: bool, as_json: bool, **given: Any) -> None:
    """Show or set the retention of the logs of SET, including those added later.

    Options that are not given keep their values.

    Examples:
        bookledger log set retention orders --age 7d
    """
    with connected(place.metadata_uri) as client:
        found = client.log_set(place.name, password=place.password)
        wanted = made(Retention() if none else found.retention, given)
        if none or wanted != found.retention:
            found.set_retention(wanted)
        fields = _fields(place.name, found.record)
    print_record(fields, as_json=as_json)


@command()
@set_place
@click.option("--end", is_flag=True, help="End the hold.")
@json_option
def hold(place: LogPlace, end: bool, as_json: bool) -> None:
    """Put SET under legal hold: none of its logs is truncated or deleted until the hold ends.

    Examples:
        bookledger log set hold orders
        bookledger log set hold orders --end
    """
    with connected(place.metadata_uri) as client:
        found = client.log_set(place.name, password=place.password)
        found.set_legal_hold(not end)
        fields = _fields(place.name, found.record)
    print_record(fields, as_json=as_json)


for one in (create, show, grow, retention, hold, delete):
    log_set.add_command(one)


def _fields(name: str, record: LogSetRecord) -> dict[str, Any]:
    """Returns the main fields of a set. `growing_to` is set while the set is growing; no writer may append to the set
    during that time."""
    return {
        "set": name,
        "log_count": record.logs,
        "growth_count": len(record.growths),
        "growing_to": record.growing_to or None,
        "retention": retention_to_dict(record.model.retention) if record.model.retention.is_set else None,
        "legal_hold": record.model.legal_hold,
    }


def _log_fields(name: str, record: LogSetRecord, number: int, log: Log) -> dict[str, Any]:
    before = record.before(number)
    after = None if before is None else f"{name}.{before[0]} to {before[1]}"
    return {**log_fields(log.name, log.record), "used_after": after}
