"""`bookledger cluster rebalance`: moves copies until disks are used evenly."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from bookie.upkeep.healing.replication_tasks import replication_tasks
from bookledger.cluster.balance import Balance, Plan
from bookledger.cluster.survey import Survey
from ledgers.errors import LedgerError
from metadata.healing import planned_moves
from metadata.records.cluster import list_bookies
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

from ..membership.authorization import acting
from ..membership.cluster_survey import (
    check_is_cluster,
    looking_at_ledgers,
    lost_after_option,
    surveyed,
    with_store,
)
from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again, nothing_changed
from ..messages.sizes import format_bytes
from ..options import json_option, metadata_option
from ..output import ProgressBar, print_json, print_record, print_records
from ..terminal import say

LOOK_SECONDS = 2.0

HOW = (
    "the plan is in effect, and bookies continue without this command (`bookledger cluster status`); plan again with: "
    "bookledger cluster rebalance --wait, or cancel the moves with: bookledger cluster rebalance --cancel"
)
"""Advice that is printed when the wait is interrupted."""


@command()
@metadata_option
@lost_after_option
@click.option("--dry-run", is_flag=True, help="Only show what would be moved.")
@click.option(
    "--wait", is_flag=True, help="Return when all copies are moved; an interrupt does not stop the moves."
)
@click.option("--cancel", is_flag=True, help="Cancel the remaining moves of an earlier plan.")
@json_option
def rebalance(
    metadata_uri: str, lost_after: float, dry_run: bool, wait: bool, cancel: bool, as_json: bool
) -> None:
    """Move copies of closed ledgers from fuller disks to emptier ones.

    A bookie drops a copy only after the new one exists. Bookies do the work; repeating the command makes a new plan.

    Examples:
        bookledger cluster rebalance --dry-run
        bookledger cluster rebalance --wait
    """
    with advise_when_stopped(nothing_changed):
        check_is_cluster(metadata_uri)
    if cancel:
        with acting("rebalance taken back"):
            cancelled = with_store(metadata_uri, planned_moves.cancel)
        print_record({"cancelled_ledgers": cancelled}, as_json=as_json)
        return
    with advise_when_stopped(nothing_changed):
        seen = surveyed(metadata_uri, lost_after)
        with looking_at_ledgers(seen.ledgers.total()) as advance:
            plan = with_store(metadata_uri, lambda store: _planned(store, seen, advance))
    if not dry_run:
        bar = ProgressBar("planning moves", len(plan.moves), of="ledgers", is_mostly_quick=True)
        with (
            acting("rebalance", ledgers=len(plan.moves)),
            advise_when_stopped(lambda: _how_planning(bar)),
            bar,
        ):
            with_store(metadata_uri, lambda store: _order(store, plan, bar))
    _print(plan, seen, as_json=as_json)
    if wait and not dry_run:
        with advise_when_stopped(lambda: HOW):
            _wait(metadata_uri, plan, as_json=as_json)


def _how_planning(bar: ProgressBar) -> str:
    return (
        f"moves of {bar.done} ledgers are planned, and bookies are making them; {again(so='plan again')}, or cancel "
        "them with: bookledger cluster rebalance --cancel"
    )


async def _planned(store: MetadataStore, seen: Survey, on_ledger: Callable[[int], None]) -> Plan:
    balance = Balance(seen.view, {bookie: held.bytes for bookie, held in seen.holdings.items()})
    async for found in LedgerStore(store).list():
        if balance.is_even():
            break
        amiss = {task.fragment.first_entry for task in replication_tasks(found.record, seen.view)}
        balance.consider(found.record, amiss)
        on_ledger(1)
    return balance.plan


async def _order(store: MetadataStore, plan: Plan, on_ledger: Callable[[int], None]) -> None:
    await planned_moves.cancel(store)  # an older plan was made for different disk usage
    for one in plan.moves:
        await planned_moves.plan(store, one)
        on_ledger(1)


def _print(plan: Plan, seen: Survey, *, as_json: bool) -> None:
    total = {ref: lives.disk_bytes_total for ref, lives in seen.view.living.items()}
    rows: list[dict[str, Any]] = [
        {
            "bookie_id": bookie.bookie_id,
            "placed_bytes": before,
            "planned_bytes": plan.after[bookie],
            "disk_percent": round(100 * before / total[bookie], 2),
            "planned_percent": round(100 * plan.after[bookie] / total[bookie], 2),
        }
        for bookie, before in sorted(plan.before.items())
    ]
    if as_json:
        print_json({"copies": plan.copies, "bytes": plan.bytes, "ledgers": len(plan.moves), "bookies": rows})
        return
    print_records(rows, as_json=False, none="no bookie takes copies")
    say(
        f"{plan.copies} copies of {len(plan.moves)} ledgers to be moved, {format_bytes(plan.bytes)}"
        if plan.copies
        else "the bookies' disks are used evenly"
    )


def _wait(metadata_uri: str, plan: Plan, *, as_json: bool) -> None:
    """Waits until all moves are made. Raises LedgerError if some could not be made, or if a target bookie is absent or
    read-only."""
    while left := with_store(metadata_uri, _left):
        ledgers, absent = left
        if absent:
            raise LedgerError(
                f"copies of {ledgers} ledgers were to be moved to {', '.join(absent)}, which "
                f"{'is' if len(absent) == 1 else 'are'} absent or read-only; repeat the command for a new plan, "
                "or cancel it with --cancel"
            )
        if not as_json:
            say(f"{ledgers} ledgers left")
        time.sleep(LOOK_SECONDS)
    undone = with_store(metadata_uri, lambda store: _undone(store, plan))
    if undone:
        raise LedgerError(
            f"{undone} copies could not be moved; see the bookies' logs for the reasons, then repeat the command"
        )


async def _left(store: MetadataStore) -> tuple[int, list[str]] | None:
    """Returns the number of ledgers still to be moved, and the target bookies that cannot take copies; None if no moves
    are left."""
    left = [one async for one in planned_moves.list_moves(store)]
    living = {one.bookie for one in await list_bookies(store) if one.writable}
    absent = {move.new.bookie_id for one in left for move in one.moves if move.new not in living}
    return (len(left), sorted(absent)) if left else None


async def _undone(store: MetadataStore, plan: Plan) -> int:
    """Returns the number of planned copies that are not in place; those of deleted ledgers do not count."""
    undone = 0
    for one in plan.moves:
        found = await LedgerStore(store).read(one.ledger_id)
        if found is not None:
            undone += sum(
                move.new not in found.record.fragment_of(move.first_entry).ensemble for move in one.moves
            )
    return undone
