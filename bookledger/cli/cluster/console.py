"""`bookledger console`: runs the web console of a cluster, on any machine that can reach its metadata."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from ...admin import systemd
from ...admin.http_option import HttpAddress, http_option, with_http
from ..config.clients import client_config, http_config
from ..membership.cluster_survey import lost_after_option
from ..messages.help import command
from ..options import certificates_option, insecure_option, json_option, metadata_option
from ..output import print_line

HTTP_DEFAULT = HttpAddress("127.0.0.1", 9180)


@command()
@metadata_option
@http_option
@click.option(
    "--entries",
    "shows_entries",
    is_flag=True,
    help="Also show the contents of entries, which are your users' data.",
)
@lost_after_option
@certificates_option
@insecure_option
@json_option
def console(
    metadata_uri: str,
    http: HttpAddress | None,
    shows_entries: bool,
    lost_after: float,
    certificates: Path | None,
    insecure: bool,
    as_json: bool,
) -> None:
    """Show a cluster in a browser, read-only, until SIGTERM or SIGINT. The default address is 127.0.0.1:9180.

    Bookies that run with --http show the same pages, but no entries. With --certs, a browser needs a certificate with
    the role console or admin; only an admin sees entries.

    Examples:
        bookledger console
        bookledger console --http 127.0.0.1:8080 --entries
    """
    from bookie.serving.stopping import until_stopped

    from ...admin.bookies import Bookies
    from ...console.console import Console

    http_bounds = replace(http_config(), loop_share=1.0)  # serving pages is all that this process does
    config = client_config(**({"certificates": str(certificates)} if certificates else {}))
    pages = Console(
        metadata_uri,
        lost_after_seconds=lost_after,
        shows_entries=shows_entries,
        config=config,
    )

    async def show() -> None:
        where = http or HTTP_DEFAULT
        async with (
            systemd.feed_watchdog(),
            with_http(
                where,
                Bookies(0),
                insecure=insecure,
                certificates=certificates,
                pages=pages,
                config=http_bounds,
            ) as url,
        ):
            print_line({"http": url}, f"the console is at {url}/", as_json=as_json)
            sys.stdout.flush()
            systemd.notify(systemd.READY)
            await asyncio.Event().wait()

    asyncio.run(until_stopped(show(), on_stop=partial(systemd.notify, systemd.STOPPING)))
