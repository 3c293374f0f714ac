"""`bookledger journal serve`: runs a JournalNode for stock NameNodes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING

import click

from bookie.addresses import strip_brackets
from bookie.serving.stopping import until_stopped

from ...admin import systemd
from ...admin.http_option import HttpAddress, address_option, bound_to
from ...admin.trace_export import traces_option, tracing_to
from ..config.clients import client_config
from ..config.settings import settings_now
from ..journal_node.node_options import check_may_listen
from ..membership.cluster_survey import check_is_cluster
from ..messages.help import command
from ..options import (
    Finite,
    insecure_option,
    json_option,
    made_of,
    metadata_option,
    password_option,
)
from ..output import print_line
from .options import SHAPE, journal_config, segment_shape_options

if TYPE_CHECKING:
    from qjm_compat.config import JournalConfig
    from qjm_compat.hadoop.journal_node_daemon import NodeConfig, RunningNode


@command(
    headings={
        "Where": ("--metadata", "--name", "--rpc", "--http", "--peer", "--lease-seconds"),
        **SHAPE,
    }
)
@made_of("journals", journal_config)
@metadata_option
@address_option("--rpc", "Address for NameNodes (Hadoop's port is 8485); port 0 picks a free one.")
@address_option(
    "--http", "Address for segments, /jmx, /healthz, /readyz and /metrics (Hadoop's port is 8480)."
)
@click.option(
    "--name",
    required=True,
    help="Name of the acceptor. Its journals are stored under this name, wherever it runs.",
)
@click.option(
    "--peer",
    "peers",
    metavar="HOST:PORT",
    multiple=True,
    help="HTTP address of a JournalNode to copy segments from; live ones are found in the metadata.",
)
@click.option(
    "--lease-seconds",
    default=10.0,
    type=Finite(1),
    show_default=True,
    help="Seconds after which another daemon may take the name of a dead one.",
)
@segment_shape_options
@password_option
@insecure_option
@traces_option
@json_option
def serve(
    metadata_uri: str,
    rpc: HttpAddress,
    http: HttpAddress,
    name: str,
    peers: tuple[str, ...],
    lease_seconds: float,
    journals: JournalConfig,
    insecure: bool,
    traces: str | None,
    as_json: bool,
) -> None:
    """Run a JournalNode, at which stock NameNodes store their edits as qjournal://HOST:PORT;…/JOURNAL.

    It runs until SIGTERM, and serves every journal that a NameNode requests. Its promises and edits are stored under
    its name, so it may restart on any host. Hadoop's simple authentication trusts every client that reaches the port.

    Examples:
        bookledger journal serve --name jn1 --rpc 127.0.0.1:8485 --http 127.0.0.1:8480
    """
    from qjm_compat.hadoop.journal_node_daemon import NodeConfig
    from qjm_compat.hadoop.node_limits import NodeLimits

    for option, address in (("--rpc", rpc), ("--http", http)):
        check_may_listen(option, address, insecure=insecure)
    check_is_cluster(metadata_uri)
    with ExitStack() as stack:
        provider = stack.enter_context(tracing_to(traces, "bookledger-journal", lambda: name))
        config = NodeConfig(
            metadata_uri=metadata_uri,
            name=name,
            rpc=stack.enter_context(closing(bound_to("--rpc", rpc))),
            http=stack.enter_context(closing(bound_to("--http", http))),
            host=rpc.host,
            http_host=http.host,
            journals=journals,
            client=client_config(tracing=provider),
            peers=[_peer(text) for text in peers],
            lease_seconds=lease_seconds,
            limits=settings_now().made("journal-node", NodeLimits),
        )
        ends = partial(systemd.notify, systemd.STOPPING)
        asyncio.run(until_stopped(_serve(config, partial(_print_addresses, as_json=as_json)), on_stop=ends))


async def _serve(config: NodeConfig, on_ready: Callable[[RunningNode], None]) -> None:
    from ..journal_node.node_service import serve_node

    def ready(node: RunningNode) -> None:
        on_ready(node)
        systemd.notify(systemd.READY)

    async with systemd.feed_watchdog():
        await serve_node(config, ready)


def _print_addresses(node: RunningNode, *, as_json: bool) -> None:
    record = node.record
    text = f"journal node {record.name} serves: rpc {record.rpc_address} http {record.http_address}"
    fields = {"name": record.name, "rpc": record.rpc_address, "http": record.http_address}
    print_line(fields, text, as_json=as_json)
    sys.stdout.flush()


def _peer(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, such as jn2:8480", param_hint="--peer")
    return strip_brackets(host), int(port)
