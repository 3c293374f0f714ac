"""`bookledger offloader`: copies closed ledgers to an object store as they age."""

from __future__ import annotations

import asyncio
import math
import sys
from functools import partial
from pathlib import Path

import click

from bookie.serving.stopping import until_stopped
from ledgers import LeadershipLost, LedgerError
from ledgers.aio import LedgerClient
from ledgers.offloading.offloader import ELECTION, Offloader, lead
from ledgers.offloading.policy import DAY, OffloadPolicy
from metadata.records.cold.offloader_state import OffloaderState

from ...admin import systemd
from ...admin.http_option import HttpAddress, http_option
from ...admin.offloader_health import OffloaderHealth
from ..config.clients import client_config, http_port, print_page_urls
from ..membership.cluster_survey import check_is_cluster
from ..messages.help import command
from ..messages.offloader_fields import state_fields
from ..options import Finite, certificates_option, insecure_option, json_option, metadata_option
from ..output import print_json, print_record
from ..terminal import say

ONCE_WAIT_SECONDS_MAX = 15.0
"""How long `--once` waits to be elected: an offloader that was killed stays elected until its lease expires."""


def _of_logs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Parses `NAME=SECONDS` or `NAME=never`; `never` excludes the log."""
    found = {}
    for value in values:
        name, _between, seconds = value.rpartition("=")
        try:
            found[name] = math.inf if seconds == "never" else float(seconds)
        except ValueError:
            found[name] = -1.0
        if not name or not found[name] >= 0:  # not `< 0`: NaN is refused, too
            raise click.BadParameter(f"{value!r} is neither NAME=SECONDS nor NAME=never")
    return found


@command(
    headings={
        "Where": ("--metadata", "--cold", "--http"),
        "Trust": ("--certs", "--insecure"),
        "What is copied, and when": ("--after", "--log", "--disk-above", "--keep"),
        "Work": ("--rate", "--every", "--once"),
    }
)
@metadata_option
@click.option(
    "--cold",
    "url",
    required=True,
    envvar="BOOKLEDGER_COLD",
    metavar="URL",
    help="Object store: s3://BUCKET/PREFIX, gs://…, az://… or file:///DIRECTORY; also from BOOKLEDGER_COLD.",
)
@click.option(
    "--after",
    "after_seconds",
    type=Finite(0),
    default=7 * DAY,
    show_default=True,
    help="Copy a ledger this many seconds after it was closed.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="NAME=SECONDS",
    callback=_of_logs,
    help="Use this time for ledgers of the log NAME; `never` excludes them.",
)
@click.option(
    "--disk-above",
    "used_percent_max",
    type=click.FloatRange(0, 100),
    default=100.0,
    show_default=True,
    help="If more than this percentage of a bookie's disk is used, copy its oldest ledgers at once.",
)
@click.option(
    "--keep",
    "keep_seconds",
    type=Finite(0),
    default=3600.0,
    show_default=True,
    help="Remove a ledger from bookies this many seconds after it was copied.",
)
@click.option(
    "--rate",
    "bytes_per_second",
    type=Finite(1),
    help="Upload at most this many bytes per second  [default: no limit]",
)
@click.option(
    "--every",
    "round_seconds",
    type=Finite(0.1),
    default=300.0,
    show_default=True,
    help="Seconds between two rounds.",
)
@click.option("--once", is_flag=True, help="Run one round, print its result, and exit.")
@certificates_option
@insecure_option
@http_option
@json_option
def offloader(
    metadata_uri: str,
    url: str,
    after_seconds: float,
    logs: dict[str, float],
    used_percent_max: float,
    keep_seconds: float,
    bytes_per_second: float | None,
    round_seconds: float,
    once: bool,
    certificates: Path | None,
    insecure: bool,
    http: HttpAddress | None,
    as_json: bool,
) -> None:
    """Copy closed ledgers to an object store and remove them from bookies, until stopped.

    If several offloaders run, they elect one, and the others wait. Ledgers with a password are skipped; use `ledger
    offload`.

    Examples:
        bookledger offloader --cold s3://archive/ledgers --after 86400
        bookledger offloader --cold s3://archive --log orders=3600 --disk-above 80
    """
    check_is_cluster(metadata_uri)
    policy = OffloadPolicy(
        after_seconds=after_seconds, used_percent_max=used_percent_max, keep_seconds=keep_seconds, logs=logs
    )

    async def work() -> None:
        watched = OffloaderHealth()
        async with (
            LedgerClient(
                metadata_uri, config=client_config(certificates=certificates and str(certificates))
            ) as client,
            systemd.feed_watchdog(),
            http_port(http, watched, metadata_uri, insecure=insecure, certificates=certificates) as pages,
        ):
            made = await client.offloader(url, policy, bytes_per_second=bytes_per_second or math.inf)
            watched.has_started(made)
            if as_json and not once:
                print_json({"offloader": url, **({"http": pages} if pages else {})})
            elif not as_json:
                say(f"copies ledgers to {url}")
                print_page_urls(pages)
            sys.stdout.flush()
            systemd.notify(systemd.READY)
            if once:
                await _one_round(client, made, as_json=as_json)
                return
            while True:
                await _led(client, made)

    async def _led(client: LedgerClient, made: Offloader) -> None:
        async with client.election(ELECTION).lead() as term:
            try:
                await lead(made, term, round_seconds, _print_state if as_json else lambda _: None)
            except LeadershipLost as error:
                say(f"{error}; waiting to be elected again")

    asyncio.run(until_stopped(work(), on_stop=partial(systemd.notify, systemd.STOPPING)))


async def _one_round(client: LedgerClient, made: Offloader, *, as_json: bool) -> None:
    """Runs one round. Raises Exit with code 1 if anything failed or is missing, and LedgerError if another offloader is
    the leader."""
    election = client.election(ELECTION)
    try:
        async with election.lead(timeout=ONCE_WAIT_SECONDS_MAX) as term:
            state = await made.round(term)
    except TimeoutError:
        leading = await election.leader()
        who = "another offloader" if leading is None else f"the offloader {leading.leader}"
        raise LedgerError(f"{who} is elected and runs the rounds; this command did nothing") from None
    print_record(state_fields(state), as_json=as_json)
    if state.failed or state.missing:
        raise click.exceptions.Exit(1)


def _print_state(state: OffloaderState) -> None:
    print_json(state_fields(state))
    sys.stdout.flush()
