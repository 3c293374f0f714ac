"""`bookledger standalone`: runs bookies and the embedded metadata store in one process, for one machine."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bookie.addresses import check_host
from metadata.store import MetadataStore

from ..admin.http_option import HttpAddress, http_option
from ..admin.trace_export import traces_option, tracing_to
from .config.clients import client_config, http_port, print_page_urls
from .config.settings import settings_now
from .messages.help import command
from .options import FilePath, checked_by, free_space_option, insecure_option, json_option, made_of
from .output import print_json
from .terminal import say

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from bookie.config import BookieConfig

PORT_MAX = 65535

host_option = click.option(
    "--host",
    default="127.0.0.1",
    callback=checked_by(check_host),
    show_default=True,
    help="Address to listen on.",
)
"""The option `host`, for commands that run bookies."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """The bookies and the store of one machine, configured by the options."""

    data: Path
    bookies: int
    host: str
    port: int
    insecure: bool
    http: HttpAddress | None
    free_space_min_mib: int
    as_json: bool

    def __post_init__(self) -> None:
        if self.port and self.port + self.bookies - 1 > PORT_MAX:
            raise click.UsageError(
                f"{self.bookies} bookies starting at port {self.port} would go past port {PORT_MAX}; use a lower --port"
            )

    async def serve(self, provider: TracerProvider | None) -> None:
        """Serves until one of the bookies fails."""
        from bookie.serving.daemon import serving, until_one_fails
        from bookie.serving.preflight import check_clock, disk_is_not_full, make_directory
        from bookie.wire.credentials import BookieKey
        from ledgers.config import PLAIN_TEXT
        from ledgers.recovering.cluster_peers import ClusterPeers
        from metadata import open_store

        from ..admin.bookies import Bookies

        def peers_of(store: MetadataStore, key: BookieKey) -> ClusterPeers:
            own = client_config(certificates=PLAIN_TEXT, tracing=provider)  # all bookies are on this machine
            return ClusterPeers(store, own, key=key)

        async with AsyncExitStack() as stack:
            watched = Bookies(self.bookies)
            url = await stack.enter_async_context(
                http_port(self.http, watched, self.uri, insecure=self.insecure)
            )
            check_clock()
            with disk_is_not_full(self.directory):
                make_directory(self.directory)
            store = await open_store(self.uri, create=True)
            stack.push_async_callback(store.close)
            running = []
            for n in range(1, self.bookies + 1):
                config = self._config(n, await _formatted(self.directory, n, store), provider)
                running.append(await stack.enter_async_context(serving(config, store, peers_of)))
                watched.has_started(running[-1])
            _announce(self.uri, [bookie.address for bookie in running], url, self.as_json)
            await until_one_fails(*running)

    @property
    def directory(self) -> Path:
        return self.data.absolute()

    @property
    def uri(self) -> str:
        from metadata.sqlite.sqlite_uri import uri_of

        return uri_of(self.directory / "metadata.db")

    def _config(self, n: int, directory: Path, provider: TracerProvider | None) -> BookieConfig:
        """Returns the configuration of the n-th bookie."""
        from bookie.config import MIB, BookieConfig
        from bookie.limits_config import Limits
        from bookie.upkeep_config import UpkeepConfig

        settings = settings_now()
        return settings.made(
            "bookie",
            BookieConfig,
            data_directory=directory,
            metadata_uri=self.uri,
            host=self.host,
            port=self.port + n - 1 if self.port else 0,
            insecure=self.insecure,
            disk_free_bytes_min=self.free_space_min_mib * MIB,
            bookies_in_process=self.bookies,
            tracing=provider,
            limits=settings.made("limits", Limits),
            upkeep=settings.made("upkeep", UpkeepConfig),
        )


@command()
@made_of("machine", _Machine)
@click.option(
    "--data",
    type=FilePath(file_okay=False),
    default=Path("bookledger-data"),
    show_default=True,
    help="Directory for all data; created if it does not exist.",
)
@click.option(
    "--bookies", default=3, type=click.IntRange(1, 32), show_default=True, help="Number of bookies to run."
)
@host_option
@click.option(
    "--port",
    default=3181,
    type=click.IntRange(0, PORT_MAX),
    show_default=True,
    help="Port of the first bookie, with the following ports for the others; 0 picks free ports.",
)
@insecure_option
@http_option
@free_space_option(256)
@traces_option
@json_option
def standalone(machine: _Machine, traces: str | None) -> None:
    """Run bookies and an embedded metadata store until SIGTERM or SIGINT. The data is kept for the next run.

    Examples:
        bookledger standalone --data /srv/try
        bookledger standalone --bookies 5 --http 127.0.0.1:9180
    """
    from bookie.serving.stopping import until_stopped

    with tracing_to(traces, "bookledger-standalone", lambda: str(machine.directory)) as provider:
        asyncio.run(until_stopped(machine.serve(provider)))


async def _formatted(data: Path, n: int, store: MetadataStore) -> Path:
    """Returns the directory of the n-th bookie, which is formatted on first use."""
    from bookie.serving.directory import COOKIE, format_directory

    directory = data / f"bookie-{n}"
    if not (directory / COOKIE).exists():
        await format_directory(directory, directory.name, store)
    return directory


def _announce(uri: str, addresses: list[str], url: str | None, as_json: bool) -> None:
    if as_json:
        print_json({"metadata": uri, "bookies": addresses, **({"http": url} if url else {})})
    else:
        say(f"{len(addresses)} bookies serve on {', '.join(addresses)}")
        say(f"in another shell:  export BOOKLEDGER_METADATA={uri}")
        say("                   seq 1000 | bookledger ledger append")
        print_page_urls(url)
    sys.stdout.flush()
