"""`bookledger bookie run`: the command's options."""

from __future__ import annotations

from typing import Any

import click

from bookie.config import check_advertised
from metadata.keys import check_name

from ...admin.http_option import HttpAddress, address_option, http_option
from ...admin.trace_export import traces_option
from ..event_loop import EventLoop
from ..journal_node.node_options import NodeOptions
from ..messages.help import command
from ..options import (
    FilePath,
    Finite,
    accept_unsafe_etcd_option,
    certificates_option,
    checked_by,
    free_space_option,
    insecure_option,
    json_option,
    metadata_option,
)
from ..standalone import PORT_MAX, host_option


@command(
    headings={
        "Where": ("--metadata", "--data", "--host", "--port", "--advertise", "--http", "--fault-domain"),
        "Trust": ("--certs", "--insecure"),
        "Disk": ("--free-space-min", "--segment-size"),
        "NameNodes": ("--journal-node", "--journal-http", "--journal-name"),
        "Upkeep": ("--collect-every", "--compaction-rate", "--scrub-rate", "--lost-after", "--heal"),
    }
)
@metadata_option
@click.option(
    "--data", "data_directory", type=FilePath(), required=True, help="The formatted data directory."
)
@host_option
@click.option(
    "--port",
    default=3181,
    type=click.IntRange(0, PORT_MAX),
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--advertise",
    "advertised_host",
    callback=checked_by(check_advertised),
    help="Host name under which clients reach this bookie.",
)
@certificates_option
@insecure_option
@http_option
@traces_option
@address_option(
    "--journal-node",
    "Also run a JournalNode for NameNodes at this address (Hadoop's port is 8485).",
    required=False,
)
@address_option(
    "--journal-http",
    "HTTP address of the JournalNode, for segments, /jmx and health  [default: port 8480 of --journal-node's host]",
    required=False,
)
@click.option(
    "--journal-name",
    callback=checked_by(check_name),
    help="The JournalNode's name as an acceptor  [default: the bookie's name]",
)
@click.option("--fault-domain", default="", help="Fault domain of the bookie, such as /room/rack.")
@click.option(
    "--lease-seconds",
    default=10.0,
    type=Finite(1),
    show_default=True,
    help="Seconds after which a dead bookie is noticed.",
)
@free_space_option(2048)
@click.option(
    "--collect-every",
    "collection_seconds",
    metavar="SECONDS",
    default=600.0,
    type=Finite(1),
    show_default=True,
    help="Seconds between two garbage collections, which free the space of deleted ledgers.",
)
@click.option(
    "--compaction-rate",
    "compaction_mib",
    metavar="MIB",
    default=16.0,
    type=Finite(0.1),
    show_default=True,
    help="Limit for compaction, in MiB per second.",
)
@click.option(
    "--scrub-rate",
    "scrub_mib",
    metavar="MIB",
    default=8.0,
    type=Finite(0.1),
    show_default=True,
    help="Limit for the scrubber, in MiB per second.",
)
@click.option(
    "--segment-size",
    "segment_mib",
    metavar="MIB",
    default=256,
    type=click.IntRange(1, 4095),
    show_default=True,
    help="Size of one file of the log; space is freed one file at a time.",
)
@click.option(
    "--lost-after",
    "lost_bookie_seconds",
    metavar="SECONDS",
    default=600.0,
    type=Finite(0),
    show_default=True,
    help="Seconds that a bookie may be absent before its copies are replaced on other bookies.",
)
@click.option(
    "--heal/--no-heal", "heals", default=True, show_default=True, help="Make missing copies automatically."
)
@click.option(
    "--event-loop",
    envvar="BOOKLEDGER_EVENT_LOOP",
    default=EventLoop.FASTEST.value,
    type=click.Choice([one.value for one in EventLoop]),
    show_default=True,
    help="Event loop; fastest is uvloop if it is installed, otherwise asyncio's own.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Serve an older copy of the data directory; the bookie stays in limbo until a repair.",
)
@accept_unsafe_etcd_option
@click.option(
    "--until-stdin-closes",
    is_flag=True,
    help="Also stop when standard input ends (for a supervising program).",
)
@json_option
def run(
    http: HttpAddress | None,
    journal_node: HttpAddress | None,
    journal_http: HttpAddress | None,
    journal_name: str | None,
    traces: str | None,
    event_loop: str,
    until_stdin_closes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Serve until SIGTERM or SIGINT.

    Examples:
        bookledger bookie run --data /srv/bookie
        bookledger bookie run --data /srv/b1 --host 0.0.0.0 --certs /etc/bookledger
        bookledger bookie run --data /srv/bookie --fault-domain /room1/rack7
        bookledger bookie run --data /srv/bookie --journal-node 127.0.0.1:8485
    """
    from .serving import Serving, config_of

    if journal_node is None and (journal_http is not None or journal_name is not None):
        raise click.UsageError("--journal-http and --journal-name need --journal-node")
    node = None if journal_node is None else NodeOptions(journal_node, journal_http, journal_name)
    config = config_of(**options)
    serving = Serving(config, http, node, until_stdin_closes=until_stdin_closes, as_json=as_json)
    serving.run(EventLoop(event_loop), traces)
