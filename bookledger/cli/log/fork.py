"""`bookledger log fork`: another log with the same records, without copying them."""

from __future__ import annotations

from datetime import datetime

import click

from ledgers import LedgerError

from ..membership.places import LogPlace, log_place
from ..messages.help import command
from ..options import Moment, json_option
from ..output import print_record
from .fields import log_fields, sharing_fields


@command()
@log_place
@click.argument("new_name", metavar="NEW")
@click.option(
    "--at", type=click.IntRange(0), help="Share what is before this position  [default: everything]"
)
@click.option("--before", type=Moment(), help="Instead of --at: share what was appended before this time.")
@json_option
def fork(place: LogPlace, new_name: str, at: int | None, before: datetime | None, as_json: bool) -> None:
    """Make log NEW, which begins with the records of LOG. Both share the ledgers; nothing is copied.

    Each is written, truncated and deleted by itself, and neither takes anything from the other.

    Examples:
        bookledger log fork orders orders-test
        bookledger log fork orders orders-before --before 2026-11-28T12:00Z
    """
    if at is not None and before is not None:
        raise click.UsageError("--at and --before are two places to fork at; take one")
    with place.opened() as found:
        try:
            if before is not None:
                made = found.fork(new_name, at=before)
            else:
                made = found.fork(new_name) if at is None else found.fork(new_name, at=at)
        except ValueError as error:
            raise LedgerError(str(error)) from None
        fields = {**log_fields(new_name, made.record), **sharing_fields(made.sharing())}
    print_record(fields, as_json=as_json)
