"""`bookledger standalone`: bookies and the embedded metadata store in one command, for one machine."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import click

from metadata.store import MetadataStore

from .options import free_space_option, insecure_option, json_option
from .output import print_json
from .terminal import say

PORT_MAX = 65535


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("bookledger-data"),
    show_default=True,
    help="Directory for everything; made when it is not there.",
)
@click.option("--bookies", default=3, type=click.IntRange(1, 32), show_default=True, help="How many to run.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=3181,
    type=click.IntRange(0, PORT_MAX),
    show_default=True,
    help="Port of the first bookie, the others follow; 0 takes free ones.",
)
@insecure_option
@free_space_option(256)
@json_option
def standalone(
    data: Path, bookies: int, host: str, port: int, insecure: bool, free_space_min_mib: int, as_json: bool
) -> None:
    """Run bookies and an embedded metadata store until SIGTERM or SIGINT. Data stays for the next time."""
    if port and port + bookies - 1 > PORT_MAX:
        raise click.UsageError(
            f"{bookies} bookies from port {port} on go past port {PORT_MAX}; take a lower --port"
        )
    from bookie.serving.daemon import until_stopped

    serving = _serve(data.absolute(), bookies, host, port, insecure, free_space_min_mib, as_json)
    asyncio.run(until_stopped(serving))


async def _serve(
    data: Path, bookies: int, host: str, port: int, insecure: bool, free_space_min_mib: int, as_json: bool
) -> None:
    from bookie.config import MIB, BookieConfig
    from bookie.serving.daemon import serving, until_one_fails
    from ledgers import ClientConfig
    from ledgers.config import PLAIN_TEXT
    from ledgers.recovering.peers import ClusterPeers
    from metadata import open_store
    from metadata.sqlite.uri import uri_of

    def peers_of(store: MetadataStore) -> ClusterPeers:
        return ClusterPeers(store, ClientConfig(certificates=PLAIN_TEXT))  # one machine: plain text

    data.mkdir(parents=True, exist_ok=True)
    uri = uri_of(data / "metadata.db")
    async with AsyncExitStack() as stack:
        store = await open_store(uri, create=True)
        stack.push_async_callback(store.close)
        running = []
        for n in range(1, bookies + 1):
            config = BookieConfig(
                data_directory=await _formatted(data, n, store),
                metadata_uri=uri,
                host=host,
                port=port + n - 1 if port else 0,
                insecure=insecure,
                disk_free_bytes_min=free_space_min_mib * MIB,
                bookies_in_process=bookies,
            )
            running.append(await stack.enter_async_context(serving(config, store, peers_of)))
        _announce(uri, [bookie.address for bookie in running], as_json)
        await until_one_fails(*running)


async def _formatted(data: Path, n: int, store: MetadataStore) -> Path:
    """The directory of the n-th bookie, formatted when it is used for the first time."""
    from bookie.serving.directory import COOKIE, format_directory

    directory = data / f"bookie-{n}"
    if not (directory / COOKIE).exists():
        await format_directory(directory, directory.name, store)
    return directory


def _announce(uri: str, addresses: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"metadata": uri, "bookies": addresses})
    else:
        say(f"{len(addresses)} bookies serve on {', '.join(addresses)}")
        say(f"in another shell:  export BOOKLEDGER_METADATA={uri}")
        say("                   seq 1000 | bookledger ledger append")
    sys.stdout.flush()
