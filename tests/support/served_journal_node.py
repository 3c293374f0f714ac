"""A JournalNode on ports of its own, in this loop: without a name's lease, so that two of one name can meet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from bookie.wire.data import sockets
from bookledger.admin.http.server import serving_http
from bookledger.admin.http_content import HttpContent
from ledgers.aio import LedgerClient
from metadata.store import MetadataStore
from qjm_compat.config import JournalConfig
from qjm_compat.hadoop.node_limits import NodeLimits
from qjm_compat.hadoop.pages.beans import Beans
from qjm_compat.hadoop.pages.node_pages import NodePages
from qjm_compat.hadoop.server.call_dispatcher import CallDispatcher
from qjm_compat.hadoop.server.connections import RpcServer
from qjm_compat.hadoop.server.node import JournalNode
from qjm_compat.hadoop.wire.methods import NodeAddress

LOOPBACK = "127.0.0.1"


@dataclass
class ServedNode:
    """Where it is served; `http_addresses` are whom it copies from, and may grow."""

    node: JournalNode
    server: RpcServer
    address: str
    http_address: str


@asynccontextmanager
async def served_node(
    name: str,
    store: MetadataStore,
    client: LedgerClient,
    config: JournalConfig,
    peers: list[tuple[str, int]] | None = None,
    limits: NodeLimits | None = None,
) -> AsyncIterator[ServedNode]:
    rpc, http = sockets.bound(LOOPBACK, 0), sockets.bound(LOOPBACK, 0)
    http_port = http.getsockname()[1]
    node = JournalNode(name, store, client, config, () if peers is None else peers, limits)
    calls = CallDispatcher(node, NodeAddress(f"http://{LOOPBACK}:{http_port}", http_port))
    server = RpcServer(calls, limits)
    pages = NodePages(node, Beans(node, calls, server, f"{LOOPBACK}:{rpc.getsockname()[1]}"), limits)
    content = HttpContent(CollectorRegistry(), list, pages.routes())
    async with server.serving(rpc), serving_http(LOOPBACK, 0, content, bound=http) as http_address:
        try:
            yield ServedNode(node, server, f"{LOOPBACK}:{rpc.getsockname()[1]}", http_address)
        finally:
            await node.close()
