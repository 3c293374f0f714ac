"""One daemon of the host: what `bookledger journal serve` composes, with acceptors that tests look into."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from aiohttp import web

from qjm_compat.acceptor.journal import Journal
from qjm_compat.config import JournalConfig
from qjm_compat.hadoop.journal_node_daemon import NodeConfig, running
from qjm_compat.hadoop.server.node import JournalNode
from qjm_compat.hadoop.server.peer_nodes import PeersByUrl
from tests.interop.shadow import MovedAside
from tests.interop.watched import Inject, WatchedJournal

HOST = "127.0.0.1"


class WatchedNode(JournalNode):
    """Its acceptors ask `inject` about faults."""

    def __init__(self, inject: Inject, aside: dict[str, MovedAside], *args: Any) -> None:
        super().__init__(*args)
        self._inject = inject
        self._aside = aside

    def _opened(self, journal_id: str) -> Journal:
        peers = PeersByUrl(journal_id, self.peer_addresses)
        journal = WatchedJournal(journal_id, self.name, self._store, self._client, self._config, peers)
        journal.inject = self._inject
        journal.aside = self._aside.setdefault(journal_id, MovedAside())
        return journal


@dataclass(frozen=True, slots=True)
class Served:
    """A daemon that serves."""

    rpc_port: int
    http_port: int
    node: JournalNode

    @property
    def journals(self) -> Mapping[str, WatchedJournal]:
        return cast("Mapping[str, WatchedJournal]", self.node.journals)


@asynccontextmanager
async def serve_journal_node(
    uri: str, name: str, rpc_port: int, http_port: int, inject: Inject, aside: dict[str, MovedAside]
) -> AsyncIterator[Served]:
    """Serves inside the block; port 0 takes a free one. `aside` outlives it: so do the files it stands for."""
    rpc, http = _bound(rpc_port), _bound(http_port)
    config = NodeConfig(
        metadata_uri=uri,
        name=name,
        rpc=rpc,
        http=http,
        host=HOST,
        http_host=HOST,
        journals=JournalConfig(ensemble_size=1),
    )
    async with (
        running(config, partial(WatchedNode, inject, aside)) as node,
        _pages(node.pages.routes(), http),
    ):
        yield Served(rpc.getsockname()[1], http.getsockname()[1], node.node)


@asynccontextmanager
async def _pages(routes: list[web.RouteDef], bound: socket.socket) -> AsyncIterator[None]:
    application = web.Application()
    application.add_routes(routes)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.SockSite(runner, bound).start()
        yield
    finally:
        await runner.cleanup()


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    return bound
