"""Runs a JournalNode as a daemon: name lease, ledgers, RPC server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ledgers import ClientConfig
from ledgers.aio import LedgerClient
from metadata import keys, open_store
from metadata.counting import facts
from metadata.counting.counting_store import CountingStore
from metadata.counting.facts import Finding
from metadata.counting.health_watch import watching_health
from metadata.records.journal_node import JournalNodeRecord
from metadata.settled_writes import new_nonce

from ..config import JournalConfig
from ..errors import BadRequest
from .node_limits import NodeLimits
from .pages.beans import Beans, JournalNodeMetrics
from .pages.node_pages import NodePages
from .server.call_dispatcher import CallDispatcher
from .server.connections import RpcServer
from .server.journal_node_syncer import NodeSync
from .server.lease import NameLease
from .server.node import JournalNode
from .server.peer_nodes import Address
from .wire.methods import NodeAddress

LEASE_SECONDS = 10.0
"""How long a daemon's name remains reserved after the daemon dies, before another daemon may take it."""

WILDCARDS = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """A daemon's configuration. `rpc` and `http` are bound sockets; `peers` are nodes to copy from, in addition to
    those found to be alive."""

    metadata_uri: str
    name: str
    rpc: socket.socket
    http: socket.socket
    host: str
    http_host: str
    journals: JournalConfig = field(default_factory=JournalConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    peers: Sequence[Address] = ()
    lease_seconds: float = LEASE_SECONDS
    limits: NodeLimits = field(default_factory=NodeLimits)


@dataclass(slots=True)
class RunningNode:
    """The parts of a running daemon that its HTTP server uses. `broken` completes if another daemon takes the name."""

    record: JournalNodeRecord
    node: JournalNode
    pages: NodePages
    metrics: JournalNodeMetrics
    broken: asyncio.Task[None]
    lease: NameLease
    store: CountingStore

    def findings(self) -> list[Finding]:
        """Returns findings about the daemon's own health."""
        why = self.lease.held.why_lost
        return [facts.REGISTERED.found(f"its name is not held: {why}" if why else ""), self.store.finding()]


def name_of(host: str) -> str:
    """Returns the name by which other hosts can reach this host."""
    return socket.gethostname() if host in WILDCARDS else host


@asynccontextmanager
async def running(
    config: NodeConfig, node_class: Callable[..., JournalNode] = JournalNode
) -> AsyncIterator[RunningNode]:
    """Serves Hadoop's IPC inside the block. Raises NameInUse, LedgerError, MetadataError.

    `node_class` creates the node; it is called with the arguments of JournalNode.
    """
    if not keys.is_name(config.name):
        raise BadRequest(
            f"{config.name!r} is not a valid name: use letters, digits, '.', '_' and '-', at most 128"
        )
    rpc_port, http_port = config.rpc.getsockname()[1], config.http.getsockname()[1]
    http_host = name_of(config.http_host)
    record = JournalNodeRecord(
        config.name, _joined(name_of(config.host), rpc_port), _joined(http_host, http_port), new_nonce()
    )
    store = CountingStore(await open_store(config.metadata_uri))
    try:
        async with (
            LedgerClient(config.metadata_uri, config=config.client) as client,
            _named(NameLease(store, record, config.lease_seconds)) as lease,
            watching_health(store),
        ):
            node = node_class(config.name, store, client, config.journals, config.peers, config.limits)
            calls = CallDispatcher(node, NodeAddress(f"http://{_joined(http_host, http_port)}", http_port))
            server = RpcServer(calls, config.limits)
            keeping = asyncio.create_task(lease.keep())
            syncing = NodeSync(node, config.journals)
            try:
                async with server.serving(config.rpc):
                    pages = NodePages(node, Beans(node, calls, server, record.rpc_address), config.limits)
                    metrics = JournalNodeMetrics(node, calls, server)
                    yield RunningNode(record, node, pages, metrics, keeping, lease, store)
            finally:
                await syncing.background.close()
                keeping.cancel()
                await asyncio.wait([keeping])
                await node.close()
    finally:
        await store.close()


@asynccontextmanager
async def _named(lease: NameLease) -> AsyncIterator[NameLease]:
    try:
        await lease.take()
        yield lease
    finally:
        await lease.give_up()


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
