"""The one place that reaches into the product: where a client is given simulated seams, and where time and chance
that do not come from the event loop are taken from the seed.

What the product would need so that this module were empty: `LedgerClient` taking a `Cluster` it does not make,
retries that ask the loop for the time and the client for chance.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import tenacity

from bookie.wire.data import sockets
from ledgers.aio import LedgerClient
from ledgers.bookies.append_stream import AppendStream
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.bookies.queued_lane import QueuedLane
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.loop_batching import LoopBatching
from ledgers.reading import scan_read
from ledgers.writing.write_handle import WriteHandle
from metadata.memory import Waker
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

from .site import Site
from .sockets import Factory, Host, Sockets

CLOSED_CLIENTS_URI = "closed://"
"""A client that is used after it was closed opens its store again: this one cannot be opened."""


class NamedBookieClient(ConnectedBookies):
    """The product's client; an address says whose connection it is for."""

    def __init__(self, store: MetadataStore, config: ClientConfig, client: str, turn: LoopBatching) -> None:
        super().__init__(store, config, turn)
        self._client = client

    async def _address(self, bookie: BookieRef) -> str:
        return f"{self._client}>{await super()._address(bookie)}"


def client_of(site: Site, name: str, store: MetadataStore, config: ClientConfig) -> LedgerClient:
    """A connected `LedgerClient` over this store and the simulated network."""
    client = LedgerClient(CLOSED_CLIENTS_URI, config=config)
    turn = LoopBatching()
    bookies = NamedBookieClient(store, config, name, turn)
    chance = random.Random(f"{site.world.seed} {name}")
    client._store = store
    client._cluster = Cluster(store, LedgerStore(store), bookies, config, chance, turn=turn)
    return client


def writer_of(handle: Any) -> WriteHandle:
    """The plain writer behind an advanced one."""
    writer: WriteHandle = getattr(handle, "_writer", handle)
    return writer


def call_on_progress(writer: WriteHandle, then: Callable[[], None]) -> None:
    """`then` is called whenever the writer has confirmed something or has ended, before anybody else hears."""
    before = writer.on_progress

    def both() -> None:
        then()
        before()

    writer.on_progress = both


@contextmanager
def in_virtual_time(site: Site, hosts: Mapping[str, Host], network: Sockets) -> Iterator[None]:
    """While it lasts: connections lead to `hosts`, retries follow the loop's clock, and chance follows the seed."""

    async def connect(address: str, protocol: Factory, tls: None) -> None:
        del tls
        client, host = address.split(">")
        await network.connect(client, hosts[host], protocol)

    clock = SimpleNamespace(monotonic=site.loop.time)
    before = random.getstate()
    random.seed(site.world.seed)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(sockets, "connect", connect))
        stack.enter_context(mock.patch.object(tenacity, "time", clock))
        stack.enter_context(mock.patch.object(AppendStream, "_break", telling_faults(site)))
        # Ledgers are short here: in every other run they are scanned as if they were long.
        stack.enter_context(mock.patch.object(scan_read, "PAGES_MIN", site.world.seed % 2))
        for product_class in (QueuedLane, WriteHandle, Waker):
            stack.enter_context(in_order(product_class))
        stack.callback(random.setstate, before)
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.WARNING)  # what goes wrong here is meant to
        yield


def telling_faults(site: Site) -> Callable[[AppendStream, str], None]:
    """A stream that meets a fault of its own breaks, like one whose bookie fails; here that is a problem."""
    break_stream = AppendStream._break

    def telling(self: AppendStream, why: str) -> None:
        if why.startswith("its stream failed"):
            site.loop.problems.append(why)
        break_stream(self, why)

    return telling


@contextmanager
def in_order(product_class: type) -> Iterator[None]:
    """Sets of these iterate in the order in which they were first put into one, not by address."""
    numbers = itertools.count(1)

    def serial(self: Any) -> int:
        found: int | None = self.__dict__.get("_serial_in_sets")
        if found is None:
            found = self.__dict__["_serial_in_sets"] = next(numbers)
        return found

    with mock.patch.object(product_class, "__hash__", serial):
        yield
