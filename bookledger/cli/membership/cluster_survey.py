"""Opens and surveys a cluster for commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from bookledger.cluster.survey import Survey, survey
from ledgers.errors import LedgerError
from metadata import opened_store
from metadata.backup.no_cluster import why_no_cluster
from metadata.records.cluster import cluster_id
from metadata.store import MetadataStore

from ..options import Finite
from ..output import ProgressBar, waiting

T = TypeVar("T")


lost_after_option = click.option(
    "--lost-after",
    metavar="SECONDS",
    default=600.0,
    type=Finite(0),
    show_default=True,
    help="Seconds after which an absent bookie counts as lost; use the bookies' own setting.",
)
"""Adds the option `lost_after`, whose value should equal the bookies' setting."""


def with_store(metadata_uri: str, work: Callable[[MetadataStore], Awaitable[T]]) -> T:
    """Runs the work on the cluster's metadata."""

    async def run() -> T:
        async with opened_store(metadata_uri) as store:
            return await work(store)

    return asyncio.run(run())


def check_is_cluster(metadata_uri: str) -> None:
    """Raises LedgerError if there is no cluster, because a mistyped prefix must not look like an empty cluster."""
    with waiting("asking the metadata"):
        with_store(metadata_uri, cluster_there)


async def cluster_there(store: MetadataStore) -> str:
    """Returns the cluster's id. Raises LedgerError if there is none."""
    name = await cluster_id(store)
    if name is None:
        raise LedgerError(await why_no_cluster(store))
    return name


def looking_at_ledgers(total: int | None = None, *, prints: bool = False) -> ProgressBar:
    """Returns the progress bar of a command that reads the records of all ledgers. The bar appears only after
    QUICK_SECONDS, because most clusters have few ledgers."""
    return ProgressBar("looking at ledgers", total, of="ledgers", prints=prints, is_mostly_quick=True)


def surveyed(metadata_uri: str, lost_after: float, *, may_be_counted: bool = False) -> Survey:
    """Surveys the whole cluster, as `survey` does. Raises LedgerError if there is no cluster."""
    wait_ms = int(lost_after * 1000)

    async def work(store: MetadataStore) -> Survey:
        seen = await survey(store, wait_ms=wait_ms, on_ledger=advance, may_be_counted=may_be_counted)
        if seen is None:
            raise LedgerError(await why_no_cluster(store))
        return seen

    with looking_at_ledgers() as advance:
        return with_store(metadata_uri, work)
