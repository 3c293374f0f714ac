"""The one place that reaches into the product: where what a process asks of its machine is given by the simulation.

Time, chance, sockets, disks, files and the metadata's address: each is patched where the product's modules look it up.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import grpc.aio
import tenacity

import ledgers.aio
import ledgers.cluster
import metadata.records.cluster
import qjm_compat.opening
from bookie.disk import space_guard
from bookie.index.index import Index
from bookie.log import appender
from bookie.serving import bookie_registration, daemon, directory, listener
from bookie.serving.listener import Listener
from bookie.upkeep import upkeep
from bookie.wire.data import sockets
from bookie.wire.trust.identity import Peer
from ledgers.bookies.append_stream import AppendStream
from ledgers.bookies.queued_lane import QueuedLane
from ledgers.cold import cold_reader, object_store
from ledgers.loop_thread import PageSource
from ledgers.offloading import offload, upload
from ledgers.reading import scan_read
from ledgers.writing.write_handle import WriteHandle
from metadata.memory_store import Waker
from metadata.records.cold import removals
from tests.simulation.engine.processes import PROCESS
from tests.simulation.shells.adapters import in_order, telling_faults
from tests.simulation.shells.metadata import VirtualStore
from tests.simulation.shells.sockets import Factory
from tests.simulation.upkeep.machine import index_needs_power

from .channels import VirtualChannel
from .hosts import Hosts
from .object_store import VirtualObjects
from .seen import watched
from .server import VirtualPort

SMALL = (
    (appender, "SMALL_GROUP_BYTES", 500),
    (appender, "ZERO_STEP_BYTES", 1000),
    (appender, "RESERVE_STEP_BYTES", 1000),
    (listener, "STOP_SECONDS_MAX", 5.0),
    (space_guard, "INDEX_STEP_BYTES", 0),
    (upload, "BLOCK_BYTES", 300),
    (offload, "PART_BYTES_MAX", 500),
    (removals, "UPLOAD_SECONDS_MAX", 15.0),
    (removals, "SKEW_SECONDS", 1.0),
    (cold_reader, "CACHE_BYTES_MAX", 600),
)
"""The product's own bounds, small enough to be met in every run."""

IN_ORDER = (QueuedLane, WriteHandle, Waker, PageSource)
"""Sets of these are iterated somewhere."""

OUTSIDE = "operator"


@contextmanager
def in_virtual_time(hosts: Hosts) -> Iterator[None]:
    """While it lasts the product runs on these hosts."""
    site = hosts.site

    def open_channel(address: str, options: object = None) -> VirtualChannel:
        del options
        return VirtualChannel(site, _node(), hosts.by_name[address.split(":")[0]])

    async def connect(address: str, protocol: Factory, tls: None) -> None:
        del tls
        await hosts.sockets.connect(_node(), hosts.by_name[address.split(":")[0]], protocol)

    def bound(host: str, port: int) -> VirtualPort:
        del host
        return hosts.here.new_port(port)

    async def listen(port: VirtualPort, protocol: Factory) -> VirtualPort:
        port.protocol = protocol
        return port

    async def stop_listening(port: VirtualPort) -> None:
        port.close()

    def serve(options: object = None, maximum_concurrent_rpcs: int | None = None) -> Any:
        del options, maximum_concurrent_rpcs
        return hosts.here.new_server()

    async def open_store(uri: str, *, create: bool = False) -> VirtualStore:
        del uri, create
        store = VirtualStore(site.metadata, _node())
        hosts.seen.opened(PROCESS.get(), store)
        return store

    def open_disk(path: Path) -> Any:
        return hosts.machine_of(path.parent).disk

    def open_index(path: Path, bytes_max: int) -> Index:
        del bytes_max
        return hosts.machine_of(path.parent).open_index(path)

    clock = SimpleNamespace(monotonic=site.loop.time)
    wall = SimpleNamespace(
        time_ns=lambda: int(site.loop.time() * 1e9), strftime=time.strftime, gmtime=time.gmtime
    )
    chance = random.Random(site.world.seed)
    new_uuid = SimpleNamespace(uuid4=lambda: uuid.UUID(int=chance.getrandbits(128)), UUID=uuid.UUID)
    dice = SimpleNamespace(Random=lambda: random.Random(chance.getrandbits(32)))
    boot = SimpleNamespace(read_text=lambda: hosts.here.name)
    space = SimpleNamespace(statvfs=lambda path: hosts.machine_of(path).statvfs())
    patches = (
        *SMALL,
        # Ledgers are short here: in every other run they are scanned as if they were long.
        (scan_read, "PAGES_MIN", site.world.seed % 2),
        (grpc.aio, "insecure_channel", open_channel),
        (grpc.aio, "server", serve),
        (tenacity, "time", clock),
        (upkeep, "time", SimpleNamespace(time=site.loop.time)),
        (Listener, "who_is", lambda _, peer: Peer(peer)),  # calls come to the server itself here
        (sockets, "connect", connect),
        (sockets, "bound", bound),
        (sockets, "listen", listen),
        (sockets, "stop_listening", stop_listening),
        (bookie_registration, "BOOT_ID", boot),
        (space_guard, "os", space),
        (daemon, "open_store", open_store),
        (ledgers.aio, "open_store", open_store),
        (qjm_compat.opening, "open_store", open_store),
        (daemon, "OsDisk", open_disk),
        (directory, "OsDisk", open_disk),
        (daemon, "Index", open_index),
        (directory, "uuid", new_uuid),
        (metadata.records.cluster, "uuid", new_uuid),
        (ledgers.aio, "random", dice),
        (ledgers.cluster, "random", dice),
        (AppendStream, "_break", telling_faults(site)),
        (object_store, "Objects", lambda url: VirtualObjects(site, url)),
        (offload, "time", wall),
        (removals, "time", wall),
    )
    before = random.getstate()
    random.seed(site.world.seed)
    with ExitStack() as stack:
        stack.callback(random.setstate, before)
        for owner, name, value in patches:
            stack.enter_context(mock.patch.object(owner, name, value))
        for product_class in IN_ORDER:
            stack.enter_context(in_order(product_class))
        stack.enter_context(index_needs_power(lambda _: hosts.here.machine.disk))
        stack.enter_context(watched(hosts.seen, lambda: hosts.here))
        yield


def _node() -> str:
    """Where the present code runs, as the network calls it."""
    process = PROCESS.get()
    return OUTSIDE if process is None else process.name.split("/")[0]
