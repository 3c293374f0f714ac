"""`bookledger bookie`: run, format, info, and the commands for files and upkeep."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from ledgers.errors import LedgerError
from metadata import keys
from metadata.store import MetadataStore

from ..config.clients import client_config
from ..membership.cluster_survey import check_is_cluster
from ..membership.decommission import drain
from ..messages.help import group
from ..messages.interruption import advise_when_stopped, again, nothing_changed
from ..options import (
    FilePath,
    accept_unsafe_etcd_option,
    json_option,
    metadata_option,
    optional_metadata_option,
)
from ..output import print_record, print_records, waiting
from . import files as bookie_files
from . import maintenance as bookie_maintenance
from .run import run


@group(
    headings={
        "Serving": ("format", "run", "info"),
        "Upkeep of live bookies": ("gc", "scrub", "repair", "drain"),
        "Files of a stopped bookie": ("check", "dump", "rebuild-index", "restore-cookie", "salvage"),
    }
)
def bookie() -> None:
    """Run, format, inspect and repair a bookie.

    Examples:
        bookledger bookie format --data /srv/bookie --id b1
        bookledger bookie run --data /srv/bookie
        bookledger bookie info
    """


for one in (
    run,
    bookie_files.check,
    bookie_files.dump,
    bookie_files.rebuild_index,
    bookie_files.restore_cookie,
    bookie_files.salvage,
    bookie_maintenance.gc,
    bookie_maintenance.scrub,
    bookie_maintenance.repair,
    drain,
):
    bookie.add_command(one)


def _name(_: click.Context, option: click.Parameter, text: str) -> str:
    try:
        return keys.check_name(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param=option) from None


@bookie.command("format")
@metadata_option
@click.option("--data", type=FilePath(), required=True, help="An empty or new directory.")
@click.option(
    "--id", "bookie_id", required=True, callback=_name, help="The bookie's name, unique in the cluster."
)
@click.option("--replace", is_flag=True, help="Take over the name of a bookie whose disk is lost for good.")
@click.option(
    "--wait", is_flag=True, help="With --replace: wait until the lease of the killed bookie has expired."
)
@accept_unsafe_etcd_option
@json_option
def format_(
    metadata_uri: str,
    data: Path,
    bookie_id: str,
    replace: bool,
    wait: bool,
    accept_unsafe_etcd: bool,
    as_json: bool,
) -> None:
    """Format a new data directory for a bookie, with a new incarnation.

    Examples:
        bookledger bookie format --data /srv/bookie --id b1
        bookledger bookie format --data /srv/new-disk --id b1 --replace --wait
    """
    if wait and not replace:
        raise click.UsageError("--wait is only valid with --replace")
    from bookie.serving.directory import format_directory
    from bookie.serving.preflight import check_keeps_writes
    from metadata import opened_store

    async def run() -> None:
        async with opened_store(metadata_uri, create=True) as store:
            await check_keeps_writes(store, accept_unsafe=accept_unsafe_etcd)
            if not replace:
                await _check_cookie_is_not_lost(store, data, bookie_id)
            cookie = await format_directory(data, bookie_id, store, replace=replace, wait=wait)
        print_record({**cookie.names, "data": str(data)}, as_json=as_json)

    with advise_when_stopped(lambda: f"the same command finishes the format; {again()}"):
        asyncio.run(run())


async def _check_cookie_is_not_lost(store: MetadataStore, data: Path, bookie_id: str) -> None:
    """Raises LedgerError if a bookie with this name has served but its cookie is missing, so that another directory
    cannot take its name by mistake."""
    holds_something = data.is_dir() and any(
        data.iterdir()
    )  # an earlier format was interrupted, or this one will be refused
    if holds_something or await store.get(keys.cookie(bookie_id)) is not None:
        return
    if await store.get(keys.life(bookie_id)) is not None:
        raise LedgerError(
            f"a bookie named {bookie_id} has served in this cluster, but its cookie is missing from the metadata: if "
            "its directory still exists, `bookledger bookie restore-cookie --data DIR` restores the cookie; if its "
            "disk is lost for good, format with --replace"
        )


@bookie.command()
@optional_metadata_option
@click.option("--data", type=FilePath(), help="Show a data directory instead, even of a stopped bookie.")
@click.argument("names", nargs=-1)
@json_option
def info(metadata_uri: str | None, data: Path | None, names: tuple[str, ...], as_json: bool) -> None:
    """Show a data directory's identity, or the state of all live bookies (or NAMES).

    Examples:
        bookledger bookie info
        bookledger bookie info b1 b2
        bookledger bookie info --data /srv/bookie
    """
    from bookie.serving.directory import read_cookie

    if data is not None:
        print_record({**read_cookie(data).names, "data": str(data)}, as_json=as_json)
    elif metadata_uri is not None:
        with advise_when_stopped(nothing_changed):
            check_is_cluster(metadata_uri)
            with waiting("asking the bookies"):
                rows = asyncio.run(_live(metadata_uri, names))
        print_records(rows, as_json=as_json, none="no bookie is registered")
    else:
        raise click.UsageError("give --metadata URI for live bookies, or --data DIR for a directory")


_NOT_SHOWN = ("cluster_id", "append_seconds_bounds", "append_counts")
"""Fields of a bookie's info that are not shown to people: they are the same for all bookies, or meant for programs."""

_NAMES = {"disk_bytes_total": "disk_total_bytes", "disk_bytes_free": "disk_free_bytes"}
"""The JSON names, which are also those in the API, of fields that have different names on the wire."""


async def _live(metadata_uri: str, names: tuple[str, ...]) -> list[dict[str, object]]:
    from ledgers.aio import LedgerClient
    from ledgers.errors import BookieUnavailable

    rows: list[dict[str, object]] = []
    async with LedgerClient(metadata_uri, config=client_config()) as client:
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
                row |= {_NAMES.get(k, k): v for k, v in asdict(said).items() if k not in {*row, *_NOT_SHOWN}}
                row["state"] = "serving"
            except BookieUnavailable as error:
                row["state"] = error.why
            rows.append(row)
    return rows
