"""`bookledger cluster`: the state of the cluster, and operators' requests for its bookies."""

from __future__ import annotations

import time
from typing import Any

import click

from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.healing.cluster_view import look
from bookie.upkeep.healing.ledger_counts import Condition, LedgerCounts
from bookie.upkeep.repair_client import NoPeers
from bookie.upkeep_config import UpkeepConfig
from bookledger.cluster.survey import seconds_since
from metadata.records.cold import offloader_state, removals
from metadata.records.ledger_record import BookieRef
from metadata.store import MetadataStore

from ..config.settings import settings_now
from ..membership.cluster_survey import (
    cluster_there,
    looking_at_ledgers,
    lost_after_option,
    surveyed,
    with_store,
)
from ..membership.decommission import decommission, maintenance
from ..messages.help import command, group
from ..messages.interruption import advise_when_stopped, again, nothing_changed
from ..messages.offloader_fields import state_fields
from ..options import json_option, metadata_option
from ..output import print_record, print_records
from ..terminal import say
from .rebalance import rebalance
from .status import bookie_rows, status

NO_OFFLOADER = "there has been no offloader: start one with `bookledger offloader --cold URL`"


@command()
@metadata_option
@json_option
def cold(metadata_uri: str, as_json: bool) -> None:
    """Show the offloader's last round: ledgers in the object store, ledgers to be copied next, and failures.

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
        say(NO_OFFLOADER, err=True)


COPIES_NAMED_MAX = 3
"""Maximum number of copies listed in one ledger's row; `ledger check` shows all."""


@group(
    headings={
        "State": ("status", "bookies", "ledgers", "audit", "cold"),
        "Orders": ("maintenance", "decommission", "rebalance"),
    }
)
def cluster() -> None:
    """Show the cluster's health, and remove bookies.

    Examples:
        bookledger cluster status
        bookledger cluster ledgers --under-replicated
        bookledger cluster rebalance --dry-run
    """


for one in (status, decommission, maintenance, rebalance, cold):
    cluster.add_command(one)


@cluster.command()
@metadata_option
@lost_after_option
@json_option
def bookies(metadata_uri: str, lost_after: float, as_json: bool) -> None:
    """Show every bookie, including absent ones.

    Examples:
        bookledger cluster bookies
    """
    with advise_when_stopped(nothing_changed):
        rows = bookie_rows(surveyed(metadata_uri, lost_after, may_be_counted=True))
    print_records(rows, as_json=as_json, none="there are no bookies")


@cluster.command()
@metadata_option
@lost_after_option
@click.option(
    "--under-replicated",
    is_flag=True,
    help="Show ledgers with a missing or misplaced copy.",
)
@json_option
def ledgers(metadata_uri: str, lost_after: float, under_replicated: bool, as_json: bool) -> None:
    """Show the ledgers with missing or misplaced copies, and why.

    Examples:
        bookledger cluster ledgers --under-replicated
    """
    if not under_replicated:
        raise click.UsageError("add --under-replicated, or use `bookledger ledger list` to see all ledgers")
    with advise_when_stopped(nothing_changed):
        seen = surveyed(metadata_uri, lost_after)
    marks = {mark.ledger_id: mark for mark in seen.marks}
    rows: list[dict[str, Any]] = []
    for ledger_id, bad in sorted(seen.bad_copies_by_ledger.items()):
        mark = marks.get(ledger_id)
        rows.append(
            {
                "ledger_id": ledger_id,
                "copies": len(bad),
                "first_of_them": "; ".join(
                    f"{copy.bookie} from entry {copy.fragment.first_entry}: {copy.condition.value}"
                    for copy in bad[:COPIES_NAMED_MAX]
                ),
                "marked_seconds": None if mark is None else int(seconds_since(mark.since_ms)),
                "why_not": mark.why_not or None if mark else None,
            }
        )
    print_records(rows, as_json=as_json, none="every copy is where it should be")


@cluster.command()
@metadata_option
@lost_after_option
@json_option
def audit(metadata_uri: str, lost_after: float, as_json: bool) -> None:
    """Check all records now, as the auditor does periodically, and mark ledgers that need healing.

    Examples:
        bookledger cluster audit
    """

    config = settings_now().made("upkeep", UpkeepConfig, lost_bookie_seconds=lost_after)

    async def work(store: MetadataStore) -> LedgerCounts:
        await cluster_there(store)
        auditor = Auditor(store, BookieRef("operator", "none"), config, time.time, NoPeers())
        view = await look(store, config.lost_bookie_ms)
        return await auditor.audit(view, bar)

    bar = looking_at_ledgers()
    with advise_when_stopped(lambda: f"ledgers marked so far are healed; {again()}"), bar:
        found = with_store(metadata_uri, work)
    record = {
        "ledgers": found.ledgers.total(),
        "fragment_count": found.fragments.total(),
        "left_behind": found.left_behind,
        "needs": {one.value: n for one, n in found.amiss_copies.items() if one is not Condition.AWAY},
    }
    print_record(record, as_json=as_json)
