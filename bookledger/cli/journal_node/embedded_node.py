"""A JournalNode in the process of a bookie: it starts and stops with the bookie, and never keeps the bookie from
serving.

The node reaches its own bookie without using the network. While it waits for resources such as its name or the
metadata, the bookie continues to serve.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from bookie.addresses import is_wildcard, join_host_port, strip_brackets
from bookie.config import BookieConfig
from bookie.serving.daemon import RunningBookie
from bookie.wire.data import sockets
from ledgers.config import PLAIN_TEXT
from ledgers.errors import LedgerError
from metadata.errors import MetadataError
from qjm_compat.config import JournalConfig
from qjm_compat.errors import JournalError
from qjm_compat.hadoop.journal_node_daemon import NodeConfig, RunningNode
from qjm_compat.hadoop.node_limits import NodeLimits

from ...admin.http_option import HttpAddress, bound_to
from ..config.clients import client_config, http_config
from ..config.settings import settings_now
from .node_options import NodeOptions, check_may_listen
from .node_service import serve_node

STOP_SECONDS_MAX = 10.0
"""How long the node may take to close its ledgers before the bookie stops; the next writer recovers ledgers left open.
"""

HASTE_SECONDS = 0.5
"""Time limit for each step after STOP_SECONDS_MAX has passed, or after the bookie has failed and can store nothing."""

log = logging.getLogger(__name__)


class EmbeddedNode:
    """The JournalNode of one bookie. Its ports are bound immediately.

    Raises ValueError if a port cannot be bound, and UsageError if the node is not allowed.
    """

    def __init__(self, asked: NodeOptions, bookie: BookieConfig) -> None:
        self._name = asked.name
        self._bookie = bookie
        self._journals = settings_now().made("journal", JournalConfig)
        self._limits = settings_now().made("journal-node", NodeLimits)
        places = {"--journal-node": asked.rpc, "--journal-http": asked.http_address}
        for option, address in places.items():
            check_may_listen(option, address, insecure=bookie.insecure)
        self._rpc, self._http = (_Port(option, address) for option, address in places.items())

    @property
    def connections_max(self) -> int:
        """Maximum number of file descriptors that peers can use by connecting to the node's ports."""
        return self._limits.connections_max + http_config().connections_max

    def describe(self, running: RunningBookie) -> dict[str, str]:
        """Returns the node's name and addresses, for people and programs."""
        rpc, http = (join_host_port(*port.address) for port in (self._rpc, self._http))
        return {"name": self._name_of(running), "rpc": rpc, "http": http}

    async def run(self, running: RunningBookie) -> None:
        """Serves until it is cancelled; starts again after each failure."""
        while True:
            why = await self._served(running)
            pause = self._bookie.lease_seconds
            line = "journal node %s is not serving, and will be retried in %g s: %s"
            log.warning(line, self._name_of(running), pause, why)
            await asyncio.sleep(pause)

    # ------------------------------------------------------------------------------------------

    async def _served(self, running: RunningBookie) -> str:
        """Serves as long as possible, and returns the reason why it stopped."""
        try:
            with self._rpc.listening() as rpc, self._http.listening() as http:
                serving = asyncio.create_task(serve_node(self._config(running, rpc, http), _nobody_waits))
                try:
                    await asyncio.shield(serving)
                except asyncio.CancelledError:
                    await _end(serving, HASTE_SECONDS if running.bookie.failed.done() else STOP_SECONDS_MAX)
                    raise
        except (JournalError, LedgerError, MetadataError, OSError) as error:
            return str(error)
        return "it has ended"

    def _config(self, running: RunningBookie, rpc: socket.socket, http: socket.socket) -> NodeConfig:
        bookie, certificates = self._bookie, self._bookie.certificates
        client = client_config(
            certificates=str(certificates) if certificates else PLAIN_TEXT,
            tracing=bookie.tracing,
            own_bookie=running.own,
        )
        return NodeConfig(
            metadata_uri=bookie.metadata_uri,
            name=self._name_of(running),
            rpc=rpc,
            http=http,
            host=self._reached_by(self._rpc),
            http_host=self._reached_by(self._http),
            journals=self._journals,
            client=client,
            lease_seconds=bookie.lease_seconds,
            limits=self._limits,
        )

    def _name_of(self, running: RunningBookie) -> str:
        return self._name or running.cookie.bookie_id

    def _reached_by(self, port: _Port) -> str:
        host, advertised = port.address.host, self._bookie.advertised_host
        return strip_brackets(advertised) if advertised and is_wildcard(host) else host


class _Port:
    """An address to listen on. If a free port was picked, the same port is used when the address is bound again."""

    def __init__(self, option: str, address: HttpAddress) -> None:
        self._bound: socket.socket | None = bound_to(option, address)
        self.address = HttpAddress(address.host, self._bound.getsockname()[1])

    @contextmanager
    def listening(self) -> Iterator[socket.socket]:
        """Yields a socket that listens on the address. Raises OSError."""
        bound, self._bound = self._bound or sockets.bound(*self.address), None
        with bound:
            yield bound


async def _end(serving: asyncio.Task[None], patience: float) -> None:
    """Stops serving cleanly, or forcibly after `patience` seconds."""
    while not serving.done():
        serving.cancel()
        await asyncio.wait([serving], timeout=patience)
        patience = HASTE_SECONDS
    if not serving.cancelled() and (error := serving.exception()) is not None:
        log.warning("the journal node did not stop cleanly: %s", error)


def _nobody_waits(node: RunningNode) -> None:
    """Does nothing: clients that connect before the node serves wait in the port's backlog."""
    del node
