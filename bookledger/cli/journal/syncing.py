"""`bookledger journal sync`: copies finalized segments to acceptors that were away or are new."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again
from ..messages.sizes import format_bytes
from ..options import Finite, json_option
from ..output import ProgressBar, print_line, print_record
from .options import SHAPE, JournalPlace, journal_place_to_write

if TYPE_CHECKING:
    from qjm_compat.sync.syncer import Synced

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
    """Copy finalized segments of JOURNAL to the acceptors that lack them. Name all its acceptors.

    Every batch is verified, and a segment is copied whole or not at all. A writer may continue meanwhile. If an
    acceptor still lacks a segment at the end, a line says why, and the exit code is 1.

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
