"""After an order is cancelled, waits until its bookie takes entries again; bookies check their orders periodically."""

from __future__ import annotations

import asyncio

from metadata.records.cluster import find_bookie
from metadata.store import MetadataStore

from ..messages.interruption import advise_when_stopped
from ..output import print_record
from ..terminal import say
from .cluster_survey import with_store

TAKES_ENTRIES_SECONDS_MAX = 15.0
"""How long to wait until a bookie takes entries: three times the interval at which a bookie checks its orders."""

LOOK_SECONDS = 0.2


def print_order_cancelled(metadata_uri: str, name: str, *, as_json: bool) -> None:
    """Waits until the bookie takes entries if it is alive, and prints that it has no order; warns if it does not take
    entries within the time limit."""
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
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        return False
    return True


async def _is_writable(store: MetadataStore, name: str) -> bool:
    found = await find_bookie(store, name)
    return found is None or found.writable
