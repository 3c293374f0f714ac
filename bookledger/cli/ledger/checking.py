"""`bookledger ledger check`: shows the placement and condition of each copy of each fragment."""

from __future__ import annotations

import sys
from typing import Any

from bookie.upkeep.healing.ledger_counts import Copy, copies
from bookie.upkeep.healing.view import look
from ledgers.record_change import no_record
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

from ..membership.cluster_survey import cluster_there, lost_after_option, with_store
from ..messages.help import command
from ..options import json_option, ledger_argument, metadata_option
from ..output import print_records


@command()
@metadata_option
@ledger_argument
@lost_after_option
@json_option
def check(metadata_uri: str, ledger_id: int, lost_after: float, as_json: bool) -> None:
    """Show every copy of a ledger's fragments. The exit code is 0 only if all are where they should be.

    Examples:
        bookledger ledger check 7
    """

    async def work(store: MetadataStore) -> list[Copy]:
        await cluster_there(store)
        ledgers = LedgerStore(store)
        found = await ledgers.read(ledger_id)
        if found is None:
            raise await no_record(ledgers, ledger_id)
        view = await look(store, int(lost_after * 1000))
        return copies(found.record, view)

    found = with_store(metadata_uri, work)
    print_records(
        [_row(copy) for copy in found],
        as_json=as_json,
        none="it is in an object store only",
    )
    sys.exit(0 if all(copy.condition.is_well for copy in found) else 1)


def _row(copy: Copy) -> dict[str, Any]:
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
