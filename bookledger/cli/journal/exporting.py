"""`bookledger journal export`: exports a journal as segment files, in a NameNode's format."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again
from ..messages.sizes import format_bytes
from ..options import FilePath, json_option
from ..output import ProgressBar, print_record
from .options import TXID_MAX, JournalPlace, journal_place


@command()
@journal_place
@click.argument("directory", type=FilePath(file_okay=False))
@click.option(
    "--from",
    "from_txid",
    type=click.IntRange(0, TXID_MAX),
    metavar="TXID",
    help="Skip segments that end before this txid  [default: the oldest]; a purged txid is an error.",
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
