"""`bookledger journal import`: imports a NameNode's or a JournalNode's directory of edits into a journal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again
from ..messages.sizes import format_bytes
from ..options import FilePath, json_option
from ..output import ProgressBar, print_json, print_record
from ..terminal import say
from .options import SHAPE, TXID_MAX, JournalPlace, journal_place_to_write

if TYPE_CHECKING:
    from qjm_compat.aio import QuorumJournalManager
    from qjm_compat.transfer.journal_import import Imported, ImportOptions


@command(
    "import",
    headings={"Import": ("--from", "--finalize", "--allow-gaps", "--take-over"), **SHAPE},
)
@journal_place_to_write
@click.argument("directory", type=FilePath(exists=True, file_okay=False))
@click.option(
    "--finalize/--in-progress",
    "finalize",
    default=True,
    help="If the last file is in progress, finalize its segment or leave it to the next writer  [default: finalize it]",
)
@click.option(
    "--from",
    "from_txid",
    type=click.IntRange(0, TXID_MAX),
    default=0,
    metavar="TXID",
    help="Skip files that end before this txid.",
)
@click.option("--allow-gaps", is_flag=True, help="Import the files even if txids are missing between them.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Take over the journal even if it has a segment in progress; its writer is fenced.",
)
@json_option
def import_(
    place: JournalPlace,
    directory: Path,
    finalize: bool,
    from_txid: int,
    allow_gaps: bool,
    take_over: bool,
    as_json: bool,
) -> None:
    """Import the edits in DIRECTORY, or in its subdirectory `current` if it has one, into JOURNAL.

    VERSION identifies the namespace; a journal that does not exist is formatted. Every file is verified before any
    of it is written. Edits that the journal already has are compared and not written again, so an import may be
    repeated.

    Examples:
        bookledger journal import ns1 /srv/dfs/journal/ns1
        bookledger journal import ns1 /srv/dfs/name --in-progress --from 1000
    """
    from qjm_compat.transfer.journal_import import ImportOptions, bytes_in

    options = ImportOptions(
        finalize=finalize, allow_gaps=allow_gaps, take_over=take_over, from_txid=from_txid
    )
    began = time.monotonic()
    bar = ProgressBar(f"importing into {place.journal_id}", bytes_in(directory))
    with advise_when_stopped(
        lambda: f"{format_bytes(bar.done)} were imported, and are not written again; {again()}"
    ):
        done = place.with_manager(lambda manager: _import(place, manager, directory, options, bar))
    seconds = time.monotonic() - began
    if as_json:
        print_json(_fields(done, seconds))
    else:
        _print(done, seconds)


async def _import(
    place: JournalPlace,
    manager: QuorumJournalManager,
    directory: Path,
    options: ImportOptions,
    bar: ProgressBar,
) -> Imported:
    from qjm_compat.transfer.journal_import import import_directory

    async with place.inspector() as inspector:
        with bar:
            return await import_directory(manager, inspector, directory, options, bar)


def _print(done: Imported, seconds: float) -> None:
    fields = _fields(done, seconds)
    left_out, notes = fields.pop("left_out"), fields.pop("notes")
    print_record(fields, as_json=False)
    for one in left_out:
        say(f"left out {one['file']}: {one['why']}")
    for note in notes:
        say(f"note: {note}")


def _fields(done: Imported, seconds: float) -> dict[str, Any]:
    return {
        "formatted": done.formatted,
        "segments": done.segments,
        "ops": done.ops,
        "bytes": done.bytes,
        "seconds": round(seconds, 3),
        "mb_per_s": round(done.bytes / 1e6 / seconds, 2),
        "segments_there": done.segments_there,
        "ops_there": done.ops_there,
        "last_txid": done.last_txid,
        "left_in_progress": done.left_in_progress,
        "left_out": [{"file": one.file, "why": one.why} for one in done.left_out],
        "notes": done.notes,
    }
