"""`bookledger standalone`: bookies and the embedded metadata store in one command, for one machine."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click

from .output import json_option, print_json


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("bookledger-data"),
    show_default=True,
    help="Directory for everything; made when it is not there.",
)
@click.option("--bookies", default=3, type=click.IntRange(1, 32), show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=3181, show_default=True, help="Port of the first bookie; 0 takes free ones.")
@json_option
def standalone(data: Path, bookies: int, host: str, port: int, as_json: bool) -> None:
    """Run bookies and an embedded metadata store until SIGTERM or SIGINT. Data stays for the next time."""
    asyncio.run(_serve(data.absolute(), bookies, host, port, as_json))


async def _serve(data: Path, bookies: int, host: str, port: int, as_json: bool) -> None:
    from bookie.config import BookieConfig
    from bookie.daemon import serving
    from bookie.directory import COOKIE, format_directory
    from metadata import open_store

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    data.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite://{data}/metadata.db"
    async with AsyncExitStack() as stack:
        store = await open_store(uri)
        stack.push_async_callback(store.close)
        running = []
        for n in range(1, bookies + 1):
            directory = data / f"bookie-{n}"
            if not (directory / COOKIE).exists():
                await format_directory(directory, f"bookie-{n}", store)
            config = BookieConfig(
                data_directory=directory, metadata_uri=uri, host=host, port=port + n - 1 if port else 0
            )
            running.append(await stack.enter_async_context(serving(config, store)))
        _announce(uri, [bookie.address for bookie in running], as_json)
        stopped = asyncio.ensure_future(stop.wait())
        failures = [bookie.bookie.failed for bookie in running]
        ends: list[asyncio.Future[Any]] = [stopped, *failures]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for failure in failures:
            if failure.done():
                raise failure.result()


def _announce(uri: str, addresses: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"metadata": uri, "bookies": addresses})
    else:
        click.echo(f"{len(addresses)} bookies serve on {', '.join(addresses)}")
        click.echo(f"in another shell:  export BOOKLEDGER_METADATA={uri}")
        click.echo("                   seq 1000 | bookledger ledger append")
    sys.stdout.flush()
