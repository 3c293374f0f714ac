"""Real bookies with real sockets and disks, served by the test's own loop, and a client on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.trace import TracerProvider

from bookie.config import BookieConfig
from bookie.serving import directory
from bookie.serving.daemon import RunningBookie, serving
from bookie.wire.credentials import BookieKey
from ledgers import ClientConfig
from ledgers.aio import LedgerClient, ReadHandle
from ledgers.config import PLAIN_TEXT
from ledgers.recovering.cluster_peers import ClusterPeers
from metadata import opened_store
from metadata.store import MetadataStore

QUICK = ClientConfig(
    append_seconds_max=2, recovery_tries_max=1, retry_replacement_seconds=0.1, read_seconds_max=2
)

LITTLE_SPACE: dict[str, Any] = {"disk_free_bytes_min": 16 << 20, "disk_reserve_bytes": 1 << 20}
"""However full the disk is that these tests run on."""


CertificatesOf = Callable[[str], Path]
"""Where the certificates of a bookie of this name are."""


def peers_with(certificates: Path | None) -> Callable[[MetadataStore, BookieKey], ClusterPeers]:
    config = ClientConfig(certificates=str(certificates) if certificates else PLAIN_TEXT)
    return lambda store, key: ClusterPeers(store, config, key=key)


@dataclass
class InProcessCluster:
    """Bookies served by this loop, which can be stopped and started one by one."""

    path: Path
    uri: str
    store: MetadataStore
    certificates: CertificatesOf | None = None
    tracing: TracerProvider | None = None
    stacks: dict[str, AsyncExitStack] = field(default_factory=dict)
    running: dict[str, RunningBookie] = field(default_factory=dict)
    keys: dict[str, BookieKey] = field(default_factory=dict)

    async def start(self, name: str) -> None:
        data = self.path / name
        if not data.exists():
            await directory.format_directory(data, name, self.store)
        stack = self.stacks[name] = AsyncExitStack()
        port = int(self.running[name].address.rsplit(":", 1)[1]) if name in self.running else 0
        own = self.certificates(name) if self.certificates else None
        config = BookieConfig(
            data_directory=data,
            metadata_uri=self.uri,
            port=port,
            lease_seconds=60.0,
            certificates=own,
            tracing=self.tracing,
            **LITTLE_SPACE,
        )

        def peers_of(store: MetadataStore, key: BookieKey) -> ClusterPeers:
            self.keys[name] = key
            return peers_with(own)(store, key)

        self.running[name] = await stack.enter_async_context(serving(config, self.store, peers_of))

    async def stop(self, name: str) -> None:
        await self.stacks.pop(name).aclose()


@asynccontextmanager
async def cluster_of(
    tmp_path: Path,
    bookies: int,
    certificates: CertificatesOf | None = None,
    tracing: TracerProvider | None = None,
    uri: str | None = None,
) -> AsyncIterator[InProcessCluster]:
    """Bookies b1, b2, … on a SQLite store of their own, or on this one."""
    uri = uri or f"sqlite://{tmp_path}/metadata.db"
    async with opened_store(uri, create=True) as store:
        cluster = InProcessCluster(tmp_path, uri, store, certificates, tracing)
        try:
            for n in range(1, bookies + 1):
                await cluster.start(f"b{n}")
            yield cluster
        finally:
            for name in list(cluster.stacks):
                await cluster.stop(name)


@asynccontextmanager
async def on_bookies(
    tmp_path: Path, bookies: int, config: ClientConfig = QUICK
) -> AsyncIterator[tuple[InProcessCluster, LedgerClient]]:
    """So many bookies, with one client."""
    async with cluster_of(tmp_path, bookies) as cluster, LedgerClient(cluster.uri, config=config) as client:
        yield cluster, client


async def payloads(reader: ReadHandle) -> list[bytes]:
    """Everything that the reader may read."""
    return [entry.payload async for entry in reader.read()]
