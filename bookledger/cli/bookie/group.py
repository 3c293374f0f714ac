"""`bookledger bookie`: run, format, info, and the commands on files and for upkeep."""

from __future__ import annotations

import asyncio
import gc
import sys
from dataclasses import asdict
from pathlib import Path

import click

from ..event_loop import EventLoop, factory_of
from ..membership.leaving import drain
from ..membership.looking import check_is_cluster
from ..options import (
    Finite,
    certificates_option,
    free_space_option,
    insecure_option,
    json_option,
    metadata_option,
    optional_metadata_option,
)
from ..output import print_json, print_record, print_records
from ..standalone import PORT_MAX
from ..terminal import say
from . import files as bookie_files
from . import maintenance as bookie_maintenance


@click.group()
def bookie() -> None:
    """Run, format, inspect and mend a bookie."""


for command in (
    bookie_files.check,
    bookie_files.dump,
    bookie_files.rebuild_index,
    bookie_files.salvage,
    bookie_maintenance.gc,
    bookie_maintenance.scrub,
    bookie_maintenance.repair,
    drain,
):
    bookie.add_command(command)


@bookie.command("format")
@metadata_option
@click.option("--data", type=click.Path(path_type=Path), required=True, help="An empty or new directory.")
@click.option("--id", "bookie_id", required=True, help="The bookie's name, unique in the cluster.")
@click.option("--replace", is_flag=True, help="Take the name of a bookie whose disk is lost for good.")
@click.option(
    "--wait", is_flag=True, help="With --replace: wait until the lease of a killed one has run out."
)
@json_option
def format_(metadata_uri: str, data: Path, bookie_id: str, replace: bool, wait: bool, as_json: bool) -> None:
    """Give a new data directory to a bookie, with a new incarnation."""
    if wait and not replace:
        raise click.UsageError("--wait goes with --replace")
    from bookie.serving.directory import format_directory
    from metadata import open_store

    async def run() -> None:
        store = await open_store(metadata_uri, create=True)
        try:
            cookie = await format_directory(data, bookie_id, store, replace=replace, wait=wait)
        finally:
            await store.close()
        print_record({**asdict(cookie), "data": str(data)}, as_json=as_json)

    asyncio.run(run())


@bookie.command()
@metadata_option
@click.option("--data", type=click.Path(path_type=Path), required=True, help="The formatted data directory.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=3181,
    type=click.IntRange(0, PORT_MAX),
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--advertise", "advertised_host", help="Host name that clients reach this bookie by.")
@certificates_option
@insecure_option
@click.option("--fault-domain", default="", help="What it shares its fate with, such as /room/rack.")
@click.option(
    "--lease-seconds",
    default=10.0,
    type=Finite(1),
    show_default=True,
    help="How soon a dead bookie is noticed.",
)
@free_space_option(2048)
@click.option(
    "--collect-every",
    "collection_seconds",
    metavar="SECONDS",
    default=600.0,
    type=Finite(1),
    show_default=True,
    help="How often the space of deleted ledgers is freed.",
)
@click.option(
    "--compaction-rate",
    "compaction_mib",
    metavar="MIB",
    default=16.0,
    type=Finite(0.1),
    show_default=True,
    help="Most MiB a second that compaction moves.",
)
@click.option(
    "--scrub-rate",
    "scrub_mib",
    metavar="MIB",
    default=8.0,
    type=Finite(0.1),
    show_default=True,
    help="Most MiB a second that are read in search of rot.",
)
@click.option(
    "--segment-size",
    "segment_mib",
    metavar="MIB",
    default=256,
    type=click.IntRange(1, 4095),
    show_default=True,
    help="Where a file of the log ends and the next begins; space is freed by the file.",
)
@click.option(
    "--lost-after",
    "lost_bookie_seconds",
    metavar="SECONDS",
    default=600.0,
    type=Finite(0),
    show_default=True,
    help="How long a bookie may be absent before its copies are made elsewhere.",
)
@click.option(
    "--heal/--no-heal", "heals", default=True, show_default=True, help="Make missing copies by itself."
)
@click.option(
    "--event-loop",
    envvar="BOOKLEDGER_EVENT_LOOP",
    default=EventLoop.FASTEST.value,
    type=click.Choice([one.value for one in EventLoop]),
    show_default=True,
    help="What serves connections; fastest is uvloop where it is installed, and asyncio's own elsewhere.",
)
@click.option(
    "--accept-loss", is_flag=True, help="Serve an older copy of the data directory, in limbo until a repair."
)
@click.option(
    "--until-stdin-closes",
    is_flag=True,
    help="Also stop when standard input ends (for a supervising program).",
)
@json_option
def run(
    metadata_uri: str,
    data: Path,
    host: str,
    port: int,
    advertised_host: str | None,
    certificates: Path | None,
    insecure: bool,
    fault_domain: str,
    lease_seconds: float,
    free_space_min_mib: int,
    collection_seconds: float,
    compaction_mib: float,
    scrub_mib: float,
    segment_mib: int,
    lost_bookie_seconds: float,
    heals: bool,
    event_loop: str,
    accept_loss: bool,
    until_stdin_closes: bool,
    as_json: bool,
) -> None:
    """Serve until SIGTERM or SIGINT."""
    from bookie.config import MIB, BookieConfig
    from bookie.serving.daemon import RunningBookie
    from bookie.serving.daemon import run as run_daemon
    from bookie.upkeep_config import UpkeepConfig
    from ledgers import ClientConfig
    from ledgers.config import PLAIN_TEXT
    from ledgers.recovering.peers import ClusterPeers
    from metadata.store import MetadataStore

    config = BookieConfig(
        data_directory=data,
        metadata_uri=metadata_uri,
        host=host,
        port=port,
        advertised_host=advertised_host,
        certificates=certificates,
        insecure=insecure,
        fault_domain=fault_domain,
        lease_seconds=lease_seconds,
        disk_free_bytes_min=free_space_min_mib * MIB,
        segment_bytes_max=segment_mib * MIB,
        accept_loss=accept_loss,
        upkeep=UpkeepConfig(
            collection_seconds=collection_seconds,
            compaction_bytes_per_second=compaction_mib * MIB,
            scrub_bytes_per_second=scrub_mib * MIB,
            lost_bookie_seconds=lost_bookie_seconds,
            heals=heals,
        ),
    )

    def peers_of(store: MetadataStore) -> ClusterPeers:
        return ClusterPeers(
            store, ClientConfig(certificates=str(certificates) if certificates else PLAIN_TEXT)
        )

    def ready(running: RunningBookie) -> None:
        if as_json:
            print_json({**asdict(running.cookie), "address": running.address})
        else:
            say(f"bookie {running.cookie.bookie_id} serves on {running.address}")
        sys.stdout.flush()
        gc.collect()
        gc.freeze()  # what lives now lives to the end: the collector need not look at it again

    with asyncio.Runner(loop_factory=factory_of(EventLoop(event_loop))) as runner:
        runner.run(run_daemon(config, ready, peers_of, until_stdin_closes=until_stdin_closes))


@bookie.command()
@optional_metadata_option
@click.option(
    "--data", type=click.Path(path_type=Path), help="Show a data directory instead; it may be stopped."
)
@click.argument("names", nargs=-1)
@json_option
def info(metadata_uri: str | None, data: Path | None, names: tuple[str, ...], as_json: bool) -> None:
    """Show a data directory's identity, or what the live bookies (or NAMES) say of themselves."""
    from bookie.serving.directory import read_cookie

    if data is not None:
        print_record({**asdict(read_cookie(data)), "data": str(data)}, as_json=as_json)
    elif metadata_uri is not None:
        check_is_cluster(metadata_uri)
        print_records(
            asyncio.run(_live(metadata_uri, names)), as_json=as_json, none="no bookie is registered"
        )
    else:
        raise click.UsageError("give --metadata URI for live bookies, or --data DIR for a directory")


async def _live(metadata_uri: str, names: tuple[str, ...]) -> list[dict[str, object]]:
    from ledgers.aio import LedgerClient
    from ledgers.errors import BookieUnavailable

    rows: list[dict[str, object]] = []
    async with LedgerClient(metadata_uri) as client:
        registered = await client.list_bookies()
        unknown = set(names) - {registration.bookie.bookie_id for registration in registered}
        if unknown:
            raise ValueError(f"not registered: {', '.join(sorted(unknown))}")
        for registration in registered:
            if names and registration.bookie.bookie_id not in names:
                continue
            row: dict[str, object] = {
                "bookie_id": registration.bookie.bookie_id,
                "address": registration.address,
                "writable": registration.writable,
                "fault_domain": registration.fault_domain,
            }
            try:
                said = await client.bookie_info(registration.bookie)
                row |= {k: v for k, v in asdict(said).items() if k not in row and k != "cluster_id"}
                row["state"] = "serving"
            except BookieUnavailable as error:
                row["state"] = error.why
            rows.append(row)
    return rows
