"""`bookledger ledger check`: shows the placement and condition of each copy of each fragment."""

from __future__ import annotations

import sys
from typing import Any

import click

from bookie.upkeep.healing.cluster_view import look
from bookie.upkeep.healing.ledger_counts import FragmentCopy, copies
from ledgers.record_change import missing_record_error
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

from ..membership.cluster_survey import cluster_there, lost_after_option, with_store
from ..membership.targets import LedgerPlace, connected, ledger_place
from ..messages.help import command
from ..messages.interruption import again
from ..options import json_option
from ..output import cold_fields, long_work, print_record, print_records


@command()
@ledger_place
@lost_after_option
@click.option("--cold", is_flag=True, help="Read and verify the ledger's copy in the object store.")
@json_option
def check(place: LedgerPlace, lost_after: float, cold: bool, as_json: bool) -> None:
    """Show every copy of a ledger's fragments. The exit code is 0 only if all copies are in place.

    Examples:
        bookledger ledger check 7
        bookledger ledger check 7 --cold
    """
    metadata_uri, ledger_id = place.metadata_uri, place.ledger_id
    if cold:
        _check_copy(place, as_json=as_json)
        return

    async def work(store: MetadataStore) -> list[FragmentCopy]:
        await cluster_there(store)
        ledgers = LedgerStore(store)
        found = await ledgers.read(ledger_id)
        if found is None:
            raise await missing_record_error(ledgers, ledger_id)
        view = await look(store, int(lost_after * 1000))
        return copies(found.record, view)

    found = with_store(metadata_uri, work)
    print_records(
        [_row(copy) for copy in found],
        as_json=as_json,
        none="it is in an object store only",
    )
    sys.exit(0 if all(copy.condition.is_well for copy in found) else 1)


def _check_copy(place: LedgerPlace, *, as_json: bool) -> None:
    with (
        connected(place.metadata_uri) as client,
        long_work(f"reading the copy of ledger {place.ledger_id}", again),
    ):
        count = client.check_copy(place.ledger_id, password=place.password)
        record = client.describe_ledger(place.ledger_id)
    print_record(
        {"ledger_id": place.ledger_id, "verified_entries": count, **cold_fields(record)}, as_json=as_json
    )


def _row(copy: FragmentCopy) -> dict[str, Any]:
    lack = copy.fragment.lacking_at(copy.position)
    return {
        "first_entry": copy.fragment.first_entry,
        "last_entry": copy.last_entry,
        "position": copy.position,
        "bookie_id": copy.bookie.bookie_id,
        "copy": copy.condition.value,
        "may_lack": None if lack is None else str(lack).removeprefix("entries "),
        "why": copy.why or None,
    }
