"""`bookledger ledger offload` and `recall`: move closed ledgers to and from an object store."""

from __future__ import annotations

import time

import click

from ledgers import LedgerError
from metadata.records.cold.cold_copy import check_url

from ..membership.targets import LedgerPlace, connected, ledger_place
from ..messages.help import command
from ..messages.interruption import again
from ..options import json_option
from ..output import cold_fields, ledger_fields, long_work, print_record

LOOK_SECONDS = 1.0
"""Seconds between two checks of whether bookies have copies again."""


def _url(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        return check_url(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@command()
@ledger_place
@click.option(
    "--cold",
    "url",
    required=True,
    envvar="BOOKLEDGER_COLD",
    metavar="URL",
    callback=_url,
    help="Object store: s3://BUCKET/PREFIX, gs://…, az://… or file:///DIRECTORY; also from BOOKLEDGER_COLD.",
)
@click.option("--keep", is_flag=True, help="Also keep the copies on bookies.")
@json_option
def offload(place: LedgerPlace, url: str, keep: bool, as_json: bool) -> None:
    """Copy a closed ledger to an object store. Bookies drop their copies when they next collect garbage.

    Before they do, the copy in the object store is read back and verified. Readers then read the ledger from the object
    store, so they need access to the store.

    Examples:
        bookledger ledger offload 7 --cold s3://archive/ledgers
        bookledger ledger offload 7 --cold file:///mnt/archive --keep
    """
    with connected(place.metadata_uri) as client, long_work(f"copying ledger {place.ledger_id}", again):
        record = client.offload_ledger(place.ledger_id, url, password=place.password, keep_on_bookies=keep)
    print_record({**ledger_fields(record), **cold_fields(record)}, as_json=as_json)


@command()
@ledger_place
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=3600.0,
    show_default=True,
    help="Wait this many seconds for bookies.",
)
@json_option
def recall(place: LedgerPlace, timeout: float, as_json: bool) -> None:
    """Copy a ledger back from the object store to bookies, and delete its objects.

    The command waits until bookies have copied the ledger. If it is interrupted, bookies continue; repeat the command.

    Examples:
        bookledger ledger recall 7
    """
    given_up_at = time.monotonic() + timeout
    with connected(place.metadata_uri) as client, long_work(f"recalling ledger {place.ledger_id}", again):
        while (record := client.recall_ledger(place.ledger_id, password=place.password)).cold is not None:
            if time.monotonic() >= given_up_at:
                raise LedgerError(
                    f"bookies have not copied ledger {place.ledger_id} within {timeout:g} s; they continue, and you "
                    "can repeat the command: `bookledger ledger show` lists the copies that are still missing"
                )
            time.sleep(LOOK_SECONDS)
    print_record({**ledger_fields(record), **cold_fields(record)}, as_json=as_json)
