"""`bookledger journal`: format, list, show, recover, purge, export; import and fsck have modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..config.lazy_group import LazyGroup, Place
from ..messages.help import Headings
from ..messages.interruption import again
from ..options import json_option, yes_option
from ..output import long_work, print_record
from ..terminal import confirm
from .fsck import fsck
from .importing import import_
from .options import TXID_MAX, JournalPlace, journal_place, journal_place_to_write
from .show import list_, show
from .tail import dump, tail

if TYPE_CHECKING:
    from qjm_compat.aio import QuorumJournalManager
    from qjm_compat.formatting import Formatted
    from qjm_compat.requests import NamespaceInfo, SegmentState
import time
from typing import TYPE_CHECKING

from ..messages.help import command
from ..messages.interruption import advise_when_stopped
from ..messages.sizes import format_bytes
from ..options import Finite
from ..output import ProgressBar, print_line
from .options import SHAPE

if TYPE_CHECKING:
    from qjm_compat.sync.syncer import Synced
from pathlib import Path

from ..options import FilePath


@command()
@journal_place
@click.argument("directory", type=FilePath(file_okay=False))
@click.option(
    "--from",
    "from_txid",
    type=click.IntRange(0, TXID_MAX),
    metavar="TXID",
    help="Skip segments that end before this txid, which must not have been purged  [default: the oldest]",
)
@click.option(
    "--in-progress", is_flag=True, help="Also export the segment in progress, as far as it is durable."
)
@click.option(
    "--allow-gaps", is_flag=True, help="Export the segments even if txids are missing between them."
)
@json_option
def export(
    place: JournalPlace,
    directory: Path,
    from_txid: int | None,
    in_progress: bool,
    allow_gaps: bool,
    as_json: bool,
) -> None:
    """Export JOURNAL's segments to DIRECTORY under the names that a NameNode uses.

    No file is overwritten with different edits, so an export may be repeated. To start from these files, a NameNode
    also needs an image and its VERSION, which are not in a journal.

    Examples:
        bookledger journal export ns1 /srv/dfs/name/current
        bookledger journal export ns1 edits --from 1000 --in-progress
    """
    from qjm_compat.transfer.journal_export import export_directory

    began = time.monotonic()
    bar = ProgressBar(f"exporting {place.journal_id}", None)

    def how() -> str:
        return f"{format_bytes(bar.done)} were exported; complete files are kept, and not written again; {again()}"

    with advise_when_stopped(how), bar:
        done = place.with_manager(
            lambda manager: export_directory(
                manager,
                directory,
                from_txid=from_txid or None,
                in_progress=in_progress,
                allow_gaps=allow_gaps,
                on_bytes=bar,
            )
        )
    seconds = time.monotonic() - began
    fields = {
        "segments": done.segments,
        "ops": done.ops,
        "bytes": done.bytes,
        "seconds": round(seconds, 3),
        "mb_per_s": round(done.bytes / 1e6 / seconds, 2),
        "segments_there": done.segments_there,
        "last_txid": done.last_txid,
    }
    print_record(fields, as_json=as_json)


MIB = 1024 * 1024


@command("sync", headings=SHAPE)
@journal_place_to_write
@click.option(
    "--rate",
    "rate_mib",
    metavar="MIB",
    type=Finite(0.1),
    help="Copy at most this many MiB per second  [default: sync_bytes_per_second in [journal], 8 MiB]",
)
@json_option
def sync(place: JournalPlace, rate_mib: float | None, as_json: bool) -> None:
    """Copy finalized segments of JOURNAL to the acceptors that lack them. Name all of its acceptors.

    Every batch is verified, and a segment is copied whole or not at all. A writer may continue in the meantime. If an
    acceptor still lacks a segment at the end, the reason is printed, and the exit code is 1.

    Examples:
        bookledger journal sync ns1 --acceptor a --acceptor b --acceptor c
        bookledger journal sync ns1 --acceptor a=etcd://h1/x --acceptor b=etcd://h2/x
    """
    bar = ProgressBar(f"copying segments of {place.journal_id}", None)
    began = time.monotonic()
    rate = rate_mib * MIB if rate_mib is not None else None

    def how() -> str:
        return f"{format_bytes(bar.done)} were read, and no segment was copied in part; {again()}"

    with advise_when_stopped(how), bar:
        done = place.with_manager(lambda manager: manager.sync(bytes_per_second=rate, on_bytes=bar))
    _print(place, done, time.monotonic() - began, as_json=as_json)
    if done.problems or done.waits:
        click.get_current_context().exit(1)


def _print(place: JournalPlace, done: Synced, seconds: float, *, as_json: bool) -> None:
    for kind, lines in (("problem", done.problems), ("waits", done.waits)):
        for what in lines:
            print_line({kind: what}, f"{kind}: {what}", as_json=as_json)
    fields: dict[str, Any] = {
        "journal": place.journal_id,
        "acceptors": [acceptor.name for acceptor in place.all_acceptors()],
        "copied": done.copied,
        "finalized": done.finalized,
        "ops": done.ops,
        "bytes": done.bytes,
        "seconds": round(seconds, 3),
        "mb_per_s": round(done.bytes / 1e6 / seconds, 2),
    }
    print_record(fields, as_json=as_json)


_NEED_MORE: dict[str, Place] = {
    "bench": (
        "bookledger.cli.bench.journals",
        "journal_bench",
        "Benchmark flushes of 8 KiB against bare appends: three bookies, write quorum 3, ack quorum 2.",
    ),
    "serve": (
        "bookledger.cli.journal.serve",
        "serve",
        "Run a JournalNode, at which stock NameNodes store their edits as qjournal://HOST:PORT;…/JOURNAL.",
    ),
}
"""Commands with imports that the other commands do not need."""


HEADINGS: Headings = {
    "Journals": ("format", "list", "show", "recover", "sync", "purge"),
    "Edits": ("import", "export", "tail", "dump", "fsck"),
    "For NameNodes": ("serve", "bench"),
}


class _JournalGroup(LazyGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(super().list_commands(ctx))


@click.group(cls=_JournalGroup, places=_NEED_MORE, path=("journal",), headings=HEADINGS)
def journal() -> None:
    """Store, move and check the edit logs of HDFS NameNodes.

    Examples:
        bookledger journal list
        bookledger journal import ns1 /srv/dfs/journal/ns1
        bookledger journal fsck ns1
    """


journal.add_command(list_)
journal.add_command(show)
journal.add_command(import_)
journal.add_command(export)
journal.add_command(tail)
journal.add_command(dump)
journal.add_command(fsck)
journal.add_command(sync)


@journal.command(
    "format",
    headings={"Fields of VERSION": ("--namespace-id", "--cluster-id", "--layout-version", "--c-time")},
)
@journal_place
@click.option(
    "--namespace-id", type=click.IntRange(1, 2**31 - 1), required=True, help="namespaceID in VERSION."
)
@click.option("--cluster-id", required=True, help="clusterID in VERSION.")
@click.option(
    "--layout-version",
    type=click.IntRange(-(2**31), -1),
    default=-63,
    show_default=True,
    help="layoutVersion in VERSION.",
)
@click.option(
    "--c-time", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="cTime in VERSION."
)
@click.option("--force", is_flag=True, help="Discard an existing journal with all its edits.")
@yes_option
@json_option
def format_(
    place: JournalPlace,
    namespace_id: int,
    cluster_id: str,
    layout_version: int,
    c_time: int,
    force: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Create a journal for one namespace. With --force, an existing journal is replaced; otherwise it is kept.

    If some acceptors have the journal and others are new, the new ones join: they adopt the layout and creation time of
    the existing acceptors, which keep all their data. Name all of the acceptors. docs/journals.md has the steps for
    replacing an acceptor.

    Examples:
        bookledger journal format ns1 --namespace-id 7 --cluster-id CID-1
    """
    from qjm_compat.requests import NamespaceInfo

    if force and not yes:
        confirm(f"discard journal {place.journal_id} and all its edits, if it exists?")
    namespace = NamespaceInfo(namespace_id, cluster_id, c_time=c_time, layout_version=layout_version)
    with long_work(
        f"formatting {place.journal_id}",
        lambda: f"some acceptors may be formatted already; {again()}",
    ):
        done = place.with_manager(lambda manager: _format(place, manager, namespace, force=force))
    fields: dict[str, Any] = {
        "journal": place.journal_id,
        "formatted": list(done.acceptors),
        "were_formatted": list(done.were_formatted),
        "namespace_id": done.namespace.namespace_id,
        "cluster_id": done.namespace.cluster_id,
        "layout_version": done.namespace.layout_version,
    }
    print_record(fields, as_json=as_json)


@journal.command()
@journal_place_to_write
@json_option
def recover(place: JournalPlace, as_json: bool) -> None:
    """Finalize the segment that a dead writer left, and print where it ends. A live writer is fenced.

    Examples:
        bookledger journal recover ns1
    """
    with long_work(
        f"recovering {place.journal_id}",
        lambda: f"nothing is lost, and only a new writer can continue; {again()}",
    ):
        epoch, segment = place.with_manager(_recover)
    fields: dict[str, Any] = {"journal": place.journal_id, "epoch": epoch, "segment": None, "last_txid": None}
    if segment is not None:
        fields |= {"segment": segment.start_txid, "last_txid": segment.end_txid}
    print_record({**fields, "was_in_progress": segment is not None and segment.in_progress}, as_json=as_json)


@journal.command()
@journal_place
@click.option(
    "--before",
    type=click.IntRange(1, TXID_MAX),
    required=True,
    metavar="TXID",
    help="The first txid to keep.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Take over the journal even if it has a segment in progress; its writer is fenced.",
)
@json_option
def purge(place: JournalPlace, before: int, take_over: bool, as_json: bool) -> None:
    """Delete the segments that end before a txid. Takes over the journal from its writer, if it has one.

    Examples:
        bookledger journal purge ns1 --before 1000000
    """
    with long_work(
        f"purging {place.journal_id}",
        lambda: f"some segments may have been deleted, but none that were to be kept; {again()}",
    ):
        epoch = place.with_manager(lambda manager: _purge(place, manager, before, take_over=take_over))
    print_record({"journal": place.journal_id, "epoch": epoch, "purged_before": before}, as_json=as_json)


async def _format(
    place: JournalPlace, manager: QuorumJournalManager, namespace: NamespaceInfo, *, force: bool
) -> Formatted:
    from qjm_compat.errors import JournalNotEmpty, QuorumFailed

    try:
        return await manager.format(namespace, force=force)
    except QuorumFailed as error:
        refused = [name for name, one in error.errors.items() if isinstance(one, JournalNotEmpty)]
        if len(refused) < len(place.all_acceptors()):
            raise
        raise JournalNotEmpty(_formatted_already(place.journal_id, refused)) from error


def _formatted_already(journal_id: str, names: Sequence[str]) -> str:
    at = f" at {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else ""
    return f"journal {journal_id} is formatted already{at}"


async def _recover(manager: QuorumJournalManager) -> tuple[int | None, SegmentState | None]:
    segment = await manager.recover_unfinalized_segments()
    return manager.epoch, segment


async def _purge(
    place: JournalPlace, manager: QuorumJournalManager, before: int, *, take_over: bool
) -> int | None:
    from qjm_compat.transfer.purging import purge_journal

    async with place.inspector() as inspector:
        await purge_journal(manager, inspector, before, take_over=take_over)
    return manager.epoch
