"""`bookledger log fork` and `log restore`: create a log that shares records without copying them, and restore a log
to an earlier state."""

from __future__ import annotations

from datetime import datetime

import click

from ..membership.targets import LogPlace, log_place
from ..messages.help import command
from ..options import Moment, json_option, yes_option
from ..output import print_record
from ..terminal import confirm
from .fields import log_fields, sharing_fields


@command()
@log_place
@click.argument("new_name", metavar="NEW")
@click.option("--at", type=click.IntRange(0), help="Share the records before this position  [default: all]")
@click.option("--before", type=Moment(), help="Instead of --at: share the records appended before this time.")
@json_option
def fork(place: LogPlace, new_name: str, at: int | None, before: datetime | None, as_json: bool) -> None:
    """Create log NEW, which begins with the records of LOG. Both logs share the ledgers; nothing is copied.

    Each log is written, truncated and deleted independently, and never loses records because of the other.

    Examples:
        bookledger log fork orders orders-test
        bookledger log fork orders orders-before --before 2026-11-28T12:00Z
    """
    if at is not None and before is not None:
        raise click.UsageError("--at and --before are mutually exclusive")
    with place.opened() as found:
        made = found.fork(new_name, at=before or ("end" if at is None else at))
        fields = {**log_fields(new_name, made.record), **sharing_fields(made.sharing())}
    print_record(fields, as_json=as_json)


@command()
@log_place
@click.option("--at", type=click.IntRange(0), help="Keep the records before this position.")
@click.option("--before", type=Moment(), help="Instead of --at: keep the records appended before this time.")
@click.option(
    "--former", default="", metavar="NAME", help="New name of the former log  [default: LOG and the time]"
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@yes_option
@json_option
def restore(
    place: LogPlace,
    at: int | None,
    before: datetime | None,
    former: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Restore LOG to an earlier state. The former log keeps all records, under another name.

    The writer of LOG is fenced. Cursors beyond the new end are moved to it.

    Examples:
        bookledger log restore orders --at 90000 --dry-run
        bookledger log restore orders --before 2026-11-28T12:00Z
    """
    where = before or at
    if where is None or (at is not None and before is not None):
        raise click.UsageError("give --at POSITION, or --before TIME")
    with place.opened() as found:
        plan = found.restore(at=where, former=former, dry_run=True)
        if not dry_run and not yes:
            confirm(
                f"restore log {place.name} to position {plan.position}, without its last {plan.records_less} "
                "records, and fence its writer?"
            )
        if not dry_run:
            plan = found.restore(at=plan.position, former=plan.former)
    fields = {
        "log": place.name,
        "end_position": plan.position,
        "records_less": plan.records_less,
        "former_log": plan.former,
        "cursors_set_back": [f"{name}: from {stood}" for name, stood in sorted(plan.cursors.items())],
        "restored": not dry_run,
    }
    print_record(fields, as_json=as_json)
