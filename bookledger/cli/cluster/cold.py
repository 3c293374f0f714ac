"""`bookledger cluster cold`: which ledgers are in an object store, which are next, and what failed."""

from __future__ import annotations

import time
from typing import Any

from metadata.records.cold import offloader_state, removals
from metadata.store import MetadataStore

from ..membership.cluster_survey import cluster_there, with_store
from ..messages.help import command
from ..messages.offloader_fields import state_fields
from ..options import json_option, metadata_option
from ..output import print_record
from ..terminal import say

NOBODY = "there has been no offloader: start one with `bookledger offloader --cold URL`"


@command()
@metadata_option
@json_option
def cold(metadata_uri: str, as_json: bool) -> None:
    """Show the offloader's last round: ledgers in the object store, ledgers that are next, and failures.

    Examples:
        bookledger cluster cold
        bookledger cluster cold --json
    """

    async def work(store: MetadataStore) -> dict[str, Any]:
        await cluster_there(store)
        state = await offloader_state.read(store)
        to_delete = [one.key async for one in removals.list_removals(store)]
        if state is None:
            return {"offloader": None, "copies_to_delete": len(to_delete)}
        ago = round(time.time() - state.at_ms / 1000, 1)
        return {**state_fields(state), "copies_to_delete": len(to_delete), "round_seconds_ago": ago}

    fields = with_store(metadata_uri, work)
    print_record(fields, as_json=as_json)
    if fields["offloader"] is None:
        say(NOBODY, err=True)
