"""Drain, decommissioning and maintenance of bookies. Each of these is an order to the cluster.

The command only gives the order; the bookies do the work, even if the command is interrupted. Orders are idempotent.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping
from typing import Any

import click

from bookledger.cluster.survey import Survey
from ledgers.errors import LedgerError
from metadata import keys, settled_writes
from metadata.healing import operator_requests
from metadata.healing.operator_requests import Order, OrderKind
from metadata.records import decommissioned_bookies
from metadata.records.cluster import Cookie, find_bookie, read_cookie
from metadata.records.decommissioned_bookies import Decommissioned
from metadata.store import MetadataStore

from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again, nothing_changed
from ..messages.sizes import format_bytes
from ..options import json_option, metadata_option, yes_option
from ..output import print_record
from ..terminal import confirm, say
from .authorization import acting
from .cluster_survey import lost_after_option, surveyed, with_store

# After an order is cancelled, waits until its bookie takes entries again; bookies check their orders periodically.

TAKES_ENTRIES_SECONDS_MAX = 15.0
"""How long to wait until a bookie takes entries: three times the interval at which a bookie checks its orders."""

TAKES_ENTRIES_LOOK_SECONDS = 0.2


def print_order_cancelled(metadata_uri: str, name: str, *, as_json: bool) -> None:
    """If the bookie is alive, waits until it takes entries. Then prints that the bookie has no order, and warns if it
    does not take entries within the time limit."""
    with advise_when_stopped(
        lambda: f"the order is cancelled; {name} takes entries once it has noticed this"
    ):
        takes_entries = with_store(metadata_uri, lambda store: _takes_entries(store, name))
    print_record({"bookie_id": name, "ordered": None}, as_json=as_json)
    if not takes_entries:
        say(f"{name} takes no entries yet; `bookledger cluster status` shows the reason", err=True)


async def _takes_entries(store: MetadataStore, name: str) -> bool:
    """Returns whether the bookie takes entries within TAKES_ENTRIES_SECONDS_MAX, or is absent."""
    try:
        async with asyncio.timeout(TAKES_ENTRIES_SECONDS_MAX):
            while not await _is_writable(store, name):  # noqa: ASYNC110 — a key is polled
                await asyncio.sleep(TAKES_ENTRIES_LOOK_SECONDS)
    except TimeoutError:
        return False
    return True


async def _is_writable(store: MetadataStore, name: str) -> bool:
    found = await find_bookie(store, name)
    return found is None or found.writable


LOOK_SECONDS = 2.0

PACE_LOOKS = 15
"""Number of samples over which the rate is measured."""

HINDRANCES_MAX = 3
"""Maximum number of obstacles of each kind that are shown."""

TO_END = {
    OrderKind.DRAIN: "cancel that first: bookledger bookie drain NAME --cancel",
    OrderKind.MAINTENANCE: "end that first: bookledger cluster maintenance NAME --end",
    OrderKind.GIVEN_UP: "cancel that first: bookledger cluster decommission NAME --cancel",
}

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show how much would be copied.")


@command()
@metadata_option
@lost_after_option
@click.argument("name")
@click.option(
    "--wait",
    is_flag=True,
    help="Return when the bookie may be stopped; an interrupt does not cancel the order.",
)
@click.option("--cancel", is_flag=True, help="Cancel the order: the bookie stays.")
@dry_run_option
@json_option
def drain(
    metadata_uri: str, lost_after: float, name: str, wait: bool, cancel: bool, dry_run: bool, as_json: bool
) -> None:
    """Copy all data of a bookie elsewhere, and place no new data on it, so that it may be stopped.

    Examples:
        bookledger bookie drain b1 --dry-run
        bookledger bookie drain b1 --wait
        bookledger bookie drain b1 --cancel
    """
    if cancel:
        give(metadata_uri, name, None, instead_of=(OrderKind.DRAIN,))
        print_order_cancelled(metadata_uri, name, as_json=as_json)
        return
    with advise_when_stopped(nothing_changed):
        seen = surveyed(metadata_uri, lost_after)
    _check_enough_are_left(seen, name)
    if dry_run:
        with_store(metadata_uri, lambda store: check_formatted(store, name))
        print_record({"bookie_id": name, "ordered": None, **_left(seen, name)}, as_json=as_json)
        return
    give(metadata_uri, name, OrderKind.DRAIN, instead_of=())
    _report(metadata_uri, lost_after, name, "draining", wait=wait, as_json=as_json)


@command()
@metadata_option
@lost_after_option
@click.argument("name")
@yes_option
@dry_run_option
@click.option(
    "--wait",
    is_flag=True,
    help="Return when nothing refers to the bookie; an interrupt does not cancel the order.",
)
@click.option(
    "--cancel", is_flag=True, help="Cancel the order: the bookie is back, with its disk, and stays."
)
@json_option
def decommission(
    metadata_uri: str,
    lost_after: float,
    name: str,
    yes: bool,
    dry_run: bool,
    wait: bool,
    cancel: bool,
    as_json: bool,
) -> None:
    """Remove a bookie that will never come back: its data is copied from the other bookies at once.

    The command also deletes the bookie's metadata, but only once nothing refers to the bookie: use --wait, or repeat
    the command later.

    Examples:
        bookledger cluster decommission b1 --dry-run
        bookledger cluster decommission b1 --wait
    """
    if cancel:
        give(metadata_uri, name, None, instead_of=(OrderKind.GIVEN_UP,))
        with_store(metadata_uri, lambda store: _stays(store, name))
        print_order_cancelled(metadata_uri, name, as_json=as_json)
        return
    with advise_when_stopped(nothing_changed):
        seen = surveyed(metadata_uri, lost_after)
    is_given_up = seen.view.orders.get(name) is OrderKind.GIVEN_UP
    if not is_given_up and any(one.bookie.bookie_id == name for one in seen.bookies if one.registration):
        raise LedgerError(f"bookie {name} is alive: stop it first, or use `bookledger bookie drain {name}`")
    with_store(metadata_uri, lambda store: check_formatted(store, name))
    if dry_run:
        print_record({"bookie_id": name, "ordered": None, **_left(seen, name)}, as_json=as_json)
        return
    if not yes:
        confirm(f"is bookie {name} lost for good, with its disk?")
    give(metadata_uri, name, OrderKind.GIVEN_UP, instead_of=(OrderKind.DRAIN, OrderKind.MAINTENANCE))
    _report(metadata_uri, lost_after, name, OrderKind.GIVEN_UP.value, wait=wait, as_json=as_json)


@command()
@metadata_option
@click.argument("name")
@click.option("--end", is_flag=True, help="End the maintenance: the bookie is back.")
@json_option
def maintenance(metadata_uri: str, name: str, end: bool, as_json: bool) -> None:
    """Mark a bookie as absent on purpose: its data is not copied elsewhere until `--end`.

    Examples:
        bookledger cluster maintenance b1
        bookledger cluster maintenance b1 --end
    """
    kind = None if end else OrderKind.MAINTENANCE
    give(metadata_uri, name, kind, instead_of=(OrderKind.MAINTENANCE,) if end else ())
    print_record({"bookie_id": name, "ordered": kind.value if kind else None}, as_json=as_json)


def give(metadata_uri: str, name: str, kind: OrderKind | None, *, instead_of: Collection[OrderKind]) -> None:
    """Gives an order, or cancels the current one.

    Raises LedgerError if the bookie never existed, or if it has another order that the new one may not replace.
    """

    async def work(store: MetadataStore) -> None:
        await check_formatted(store, name)
        stands = await operator_requests.read(store, name)
        if stands is not None and stands.kind is not kind and stands.kind not in instead_of:
            raise LedgerError(f"bookie {name} has another order: {stands.kind.value}; {TO_END[stands.kind]}")
        if kind is None:
            await operator_requests.take_back(store, name)
        else:
            await operator_requests.give(store, Order(name, kind, time.time_ns() // 1_000_000))

    with acting("taken back" if kind is None else kind.value, bookie=name):
        with_store(metadata_uri, work)


async def check_formatted(store: MetadataStore, name: str) -> None:
    """Raises LedgerError for a bookie that never existed. A bookie whose metadata is only partly deleted still has its
    order, and is accepted."""
    if await read_cookie(store, name) is None and await operator_requests.read(store, name) is None:
        raise LedgerError(f"no bookie was ever formatted as {name}")


async def forget(store: MetadataStore, name: str) -> None:
    """Deletes the bookie's metadata once nothing refers to the bookie. Raises MetadataError, or LedgerError if the
    bookie is alive.

    A bookie that starts in the meantime is either seen here, or finds after its registration that its cookie is
    missing. Before the cookie is removed, a record is written to state that the bookie was removed, not lost.
    """
    cookie = await store.get(keys.cookie(name))
    if cookie is not None:
        await _check_is_gone(store, name)
        known = Cookie.decode(keys.cookie(name), cookie.value)
        incarnation, at_ms = known.incarnation, time.time_ns() // 1_000_000
        await decommissioned_bookies.note(store, Decommissioned(name, incarnation, at_ms, known.predecessors))
        await store.delete(keys.cookie(name), cookie.version)
        try:
            await _check_is_gone(store, name)
        except LedgerError:
            await settled_writes.create(store, keys.cookie(name), cookie.value)
            await decommissioned_bookies.take_back(store, incarnation)
            raise
    for key in (keys.absent(name), keys.collected(name), keys.life(name), keys.order(name)):
        await settled_writes.delete(store, key)


async def _stays(store: MetadataStore, name: str) -> None:
    """Records that the bookie stays: withdraws the record of its removal, if an interrupted command left one."""
    cookie = await read_cookie(store, name)
    if cookie is not None:
        await decommissioned_bookies.take_back(store, cookie.incarnation)


async def _check_is_gone(store: MetadataStore, name: str) -> None:
    if await store.get(keys.bookie(name)) is not None:
        raise LedgerError(
            f"nothing refers to bookie {name} now, but it is alive: stop it and repeat this command "
            "to forget it, or keep it with --cancel"
        )


def _check_enough_are_left(seen: Survey, name: str) -> None:
    others = [one for one in seen.view.takers() if one.bookie.bookie_id != name]
    needed = max(seen.ensemble_sizes, default=1)
    if len(others) < needed:
        raise LedgerError(
            f"only {len(others)} other bookies take entries, but some ledgers need {needed}: add a bookie first"
        )


def _report(metadata_uri: str, lost_after: float, name: str, what: str, *, wait: bool, as_json: bool) -> None:
    pace = _Pace()
    with advise_when_stopped(lambda: _how(name, what)):
        _wait(metadata_uri, lost_after, name, what, pace, wait=wait, as_json=as_json)


def _how(name: str, what: str) -> str:
    back = f"bookie drain {name}" if what == "draining" else f"cluster decommission {name}"
    return (
        f"the order is in effect, and bookies continue without this command; {again(so='wait for them')}, or cancel it "
        f"with: bookledger {back} --cancel"
    )


def _wait(
    metadata_uri: str, lost_after: float, name: str, what: str, pace: _Pace, *, wait: bool, as_json: bool
) -> None:
    while True:
        seen = surveyed(metadata_uri, lost_after)
        left = _left(seen, name)
        is_done = not left["fragment_count"]
        if is_done and what == OrderKind.GIVEN_UP.value:
            with_store(metadata_uri, lambda store: forget(store, name))
        if as_json or not wait or is_done:
            print_record({"bookie_id": name, "ordered": what, **left, "done": is_done}, as_json=as_json)
        else:
            say(_progress(name, left, pace))
            for hindrance in _hindrances(seen, name):
                say(f"  {hindrance}")
        if is_done and not as_json:
            end = "it may be stopped" if what == "draining" else "it is forgotten"
            say(f"nothing refers to {name} now: {end}")
        if is_done or not wait:
            return
        time.sleep(LOOK_SECONDS)


class _Pace:
    """Measures how fast a quantity decreases."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=PACE_LOOKS)

    def seconds_left(self, left_bytes: int) -> float | None:
        """Returns the estimated time left at the recent rate; None if the quantity is not decreasing."""
        self._seen.append((time.monotonic(), left_bytes))
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return last * (now - began) / (first - last) if first > last > 0 else None


def _hindrances(seen: Survey, name: str) -> list[str]:
    """Returns known reasons why the bookie's copies do not move, and remedies."""
    found = [
        f"ledger {ledger_id} is open: its current entries are moved when it is closed or recovered"
        for ledger_id in seen.open_on.get(name, ())[:HINDRANCES_MAX]
    ]
    theirs = {
        ledger_id
        for ledger_id, copies in seen.bad_copies_by_ledger.items()
        if any(copy.bookie.bookie_id == name for copy in copies)
    }
    why = Counter(mark.why_not for mark in seen.marks if mark.ledger_id in theirs and mark.why_not)
    return found + [f"{count} ledgers: {text}" for text, count in why.most_common(HINDRANCES_MAX)]


def _progress(name: str, left: Mapping[str, Any], pace: _Pace) -> str:
    seconds = pace.seconds_left(left["bytes"])
    until = "" if seconds is None else f", done in about {seconds:.0f} s"
    size = format_bytes(left["bytes"])
    return f"{name}: {left['fragment_count']} fragments of {left['ledgers']} ledgers, {size} left{until}"


def _left(seen: Survey, name: str) -> Mapping[str, Any]:
    """Returns how many ledgers, fragments and bytes are still assigned to a bookie with this name."""
    found = [holding for ref, holding in seen.holdings.items() if ref.bookie_id == name]
    return {
        "ledgers": sum(holding.ledgers for holding in found),
        "fragment_count": sum(holding.fragments for holding in found),
        "bytes": sum(holding.bytes for holding in found),
    }
