"""`bookledger log set`: sets of logs, over which keys are spread."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from ledgers import LedgerClient, LedgerError, Log, NoSuchLogSet
from metadata.records.coordination.log_set_record import LOGS_MAX, LogSetRecord

from ..config.clients import client_config
from ..membership.remedies import remedies
from ..messages.help import command, group
from ..messages.interruption import again, told_when_stopped
from ..options import json_option, log_password_option, metadata_option
from ..output import Progress, print_json, print_record, print_records
from ..terminal import confirm
from .fields import log_fields
from .new_log import HEADING, new_log_options

set_argument = click.argument("name", metavar="SET")
logs_argument = click.argument("logs", type=click.IntRange(1, LOGS_MAX))


@group("set")
def log_set() -> None:
    """Make, show, grow and delete sets of logs. The logs of SET are SET.0, SET.1 and so on.

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
    """Make SET with so many LOGS. All of them, and those that it gets later, are made alike.

    Examples:
        bookledger log set create orders 4
        bookledger log set create events 16 --ensemble 5 --roll-seconds 3600
    """
    with LedgerClient(metadata_uri, config=client_config()) as client:
        if name in dict(client.list_log_sets()):
            raise LedgerError(f"there is a set of logs {name!r} already")
        try:
            made = client.log_set(name, logs, **settings)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        print_record(_fields(name, made.record), as_json=as_json)


@command()
@metadata_option
@log_password_option
@set_argument
@json_option
def show(metadata_uri: str, password: bytes, name: str, as_json: bool) -> None:
    """Show SET and its logs.

    `used_after`: a group uses this log once it has used that one up to there, as the keys of this one were in that.

    Examples:
        bookledger log set show orders
    """
    with LedgerClient(metadata_uri, config=client_config()) as client:
        found = client.log_set(name, password=password)
        fields = _fields(name, found.record)
        logs = [_log_fields(name, found.record, n, found.log(n)) for n in range(found.record.logs)]
    if as_json:
        print_json({**fields, "logs": logs})
        return
    print_record(fields, as_json=False)
    print_records(logs, as_json=False, none="it has no logs")


@command()
@metadata_option
@log_password_option
@set_argument
@logs_argument
@json_option
def grow(metadata_uri: str, password: bytes, name: str, logs: int, as_json: bool) -> None:
    """Spread the keys of SET over so many LOGS from now on, a multiple of those that there are. Its writer is fenced.

    Examples:
        bookledger log set grow orders 8
    """
    with remedies(metadata_uri), LedgerClient(metadata_uri, config=client_config()) as client:
        found = client.log_set(name, password=password)
        bar = Progress(f"growing set {name}", None, of="", is_mostly_quick=True)
        how = f"set {name} may be about to grow; its next writer, or the same command, completes that"
        try:
            with told_when_stopped(lambda: how), bar:
                found.grow(logs)
        except ValueError as error:
            raise LedgerError(str(error)) from None
        fields = _fields(name, found.record)
    print_record(fields, as_json=as_json)


@command()
@metadata_option
@log_password_option
@set_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(metadata_uri: str, password: bytes, name: str, yes: bool, as_json: bool) -> None:
    """Delete SET with all its logs, for good. Its writer is fenced, its consumers end with an error.

    Examples:
        bookledger log set delete orders
    """
    with remedies(metadata_uri), LedgerClient(metadata_uri, config=client_config()) as client:
        with suppress(NoSuchLogSet):  # one that is deleted in part is deleted to the end
            record = client.log_set(name, password=password).record
            if not yes:
                confirm(f"delete set {name}, its {record.logs} logs and everything in them?")
        bar = Progress(f"deleting set {name}", None, of="", is_mostly_quick=True)
        with told_when_stopped(lambda: f"set {name} may be there in part; {again()}"), bar:
            client.delete_log_set(name, password=password)
    print_record({"set": name, "deleted": True}, as_json=as_json)


for one in (create, show, grow, delete):
    log_set.add_command(one)


def set_of(log: str, sets: Mapping[str, LogSetRecord]) -> str | None:
    """The set that a log is of, if any."""
    of = log.rpartition(".")[0]
    return of if of in sets and sets[of].log_of(of, log) is not None else None


def _fields(name: str, record: LogSetRecord) -> dict[str, Any]:
    """A set, in brief. `growing_to`: while nobody may write to it."""
    return {
        "set": name,
        "log_count": record.logs,
        "growth_count": len(record.growths),
        "growing_to": record.growing_to or None,
    }


def _log_fields(name: str, record: LogSetRecord, number: int, log: Log) -> dict[str, Any]:
    before = record.before(number)
    after = None if before is None else f"{name}.{before[0]} to {before[1]}"
    return {**log_fields(log.name, log.record), "used_after": after}
