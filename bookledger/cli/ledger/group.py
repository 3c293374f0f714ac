"""`bookledger ledger`: create, show, delete; the other commands have modules of their own."""

from __future__ import annotations

from typing import Any

import click

from bookledger.cluster.open_ledgers import UNKNOWN, confirmed_fields, why_unknown
from ledgers import NewLedger
from metadata.records.ledger_record import LedgerRecord

from ..membership.cluster_survey import check_is_cluster
from ..membership.targets import LedgerPlace, connected, ledger_place
from ..messages.help import group
from ..options import json_option, ledger_argument, metadata_option, new_ledger_options, yes_option
from ..output import (
    cold_fields,
    custom_fields,
    ledger_fields,
    loss_fields,
    print_json,
    print_line,
    print_record,
)
from ..terminal import confirm, say, shown_bytes
from .append import append
from .checking import check
from .entries import read, tail
from .listing import asking_bookies, list_
from .offloading import offload, recall
from .recovering import recover
from .salvage import salvage


@group(
    headings={
        "Entries": ("create", "append", "read", "tail"),
        "Ledgers": ("list", "show", "check", "recover", "salvage", "delete"),
        "Object stores": ("offload", "recall"),
    }
)
def ledger() -> None:
    """Create, write, read and repair ledgers.

    Examples:
        seq 1000 | bookledger ledger append
        bookledger ledger list --state open
        bookledger ledger read 7 --output entries.txt
    """


@ledger.command()
@metadata_option
@new_ledger_options
@json_option
def create(metadata_uri: str, new: NewLedger, strict: bool, as_json: bool) -> None:
    """Create a ledger for a later `ledger append --ledger ID`, and print its id.

    Absent bookies may be in its ensemble, as long as an ack quorum of each write set is alive.

    Examples:
        bookledger ledger create
        bookledger ledger create --ensemble 5 --write-quorum 3 --custom owner=team-a
    """
    with connected(metadata_uri, require_all_bookies=strict or None) as client:
        ledger_id = client.reserve_ledger(new)
    print_line({"ledger_id": ledger_id}, ledger_id, as_json=as_json)


ledger.add_command(append)
ledger.add_command(read)
ledger.add_command(tail)
ledger.add_command(list_)
ledger.add_command(check)
ledger.add_command(recover)
ledger.add_command(salvage)
ledger.add_command(offload)
ledger.add_command(recall)


@ledger.command()
@metadata_option
@ledger_argument
@json_option
def show(metadata_uri: str, ledger_id: int, as_json: bool) -> None:
    """Show one ledger's metadata, with its fragments and their bookies.

    The bookies of a ledger that is not closed report its last confirmed entry, its size, and the address of its writer.

    Examples:
        bookledger ledger show 7
    """
    check_is_cluster(metadata_uri)
    with connected(metadata_uri) as client:
        record = client.describe_ledger(ledger_id)
    with asking_bookies(metadata_uri) as asked:
        seen = asked([record])
    answers = {**confirmed_fields(record, seen), **why_unknown(record, seen)}
    if as_json:
        print_json(
            {
                **ledger_fields(record),
                **answers,
                **loss_fields(record),
                **cold_fields(record),
                **_parts(record),
            }
        )
        return
    still = (
        {} if record.is_closed else {name: UNKNOWN if one is None else one for name, one in answers.items()}
    )
    print_record(
        {**ledger_fields(record), **still, **loss_fields(record), **cold_fields(record)}, as_json=False
    )
    for name, value in sorted(record.custom_metadata.items()):
        say(f"custom {name}={shown_bytes(value)}")
    for fragment in record.fragments:
        lacking = [f"; {fragment.ensemble[one.position]} may lack {one}" for one in fragment.lacking]
        where = ", ".join(map(str, fragment.ensemble)) or "in the object store only"
        say(f"from entry {fragment.first_entry}: {where}{''.join(lacking)}")


def _parts(record: LedgerRecord) -> dict[str, Any]:
    """Returns the nested parts of a ledger's JSON."""
    return {
        "fragments": [
            {
                "first_entry": fragment.first_entry,
                "bookies": [
                    {"bookie_id": b.bookie_id, "incarnation": b.incarnation} for b in fragment.ensemble
                ],
                "lacking": [
                    {
                        "bookie_id": fragment.ensemble[one.position].bookie_id,
                        "first_entry": one.first_entry,
                        "last_entry": None if one.is_everything else one.last_entry,
                    }
                    for one in fragment.lacking
                ],
            }
            for fragment in record.fragments
        ],
        **custom_fields(record),
    }


@ledger.command()
@ledger_place
@yes_option
@click.option(
    "--force",
    is_flag=True,
    help="Delete the ledger without recovery, because its bookies are lost. Its writer is not fenced.",
)
@click.option(
    "--password-is-lost",
    is_flag=True,
    help="Delete the ledger without recovery and without its password; if certificates are in use, this needs an "
    "admin's certificate.",
)
@json_option
def delete(place: LedgerPlace, yes: bool, force: bool, password_is_lost: bool, as_json: bool) -> None:
    """Delete a ledger for good. An open ledger is fenced and recovered first.

    With certificates, this needs an admin's certificate, that of the ledger's owner, or the ledger's password.

    Examples:
        bookledger ledger delete 7
        bookledger ledger delete --yes 7 --password-file ledger.password
    """
    ledger_id, password = place.ledger_id, place.password
    with connected(place.metadata_uri, deleting=True) as client:
        client.describe_ledger(ledger_id)
        if not yes:
            confirm(f"delete ledger {ledger_id} and everything in it?")
        client.delete_ledger(ledger_id, password=password, force=force, password_is_lost=password_is_lost)
    print_record({"ledger_id": ledger_id, "deleted": True}, as_json=as_json)
