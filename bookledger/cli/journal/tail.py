"""`bookledger journal tail` and `dump`: print the edits of a journal or of one file as JSON lines."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledgers.tasks import end_tasks

from ..membership.rollback_check import check_not_rolled_back
from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again
from ..messages.outages import LOOK_SECONDS, PAUSE_SECONDS, Outages
from ..messages.sizes import format_bytes
from ..options import FilePath, json_option, outage_option
from ..output import ProgressBar, print_record
from ..terminal import say
from .options import TXID_MAX, JournalPlace, journal_place

if TYPE_CHECKING:
    from qjm_compat.aio import QuorumJournalManager
    from qjm_compat.edits import EditOp, SegmentScan
    from qjm_compat.errors import JournalError

PIPE_BYTES_MAX = 1 << 30

NOTICED_SECONDS_MAX = 60.0
"""A live bookie notices within this time that the metadata was rolled back, because it renews its registration more
often."""


@command()
@journal_place
@click.option("-f", "--follow", is_flag=True, help="Continue with new edits as they become durable.")
@click.option(
    "--from",
    "from_txid",
    type=click.IntRange(1, TXID_MAX),
    metavar="TXID",
    help="First edit to print  [default: the oldest]",
)
@outage_option
@json_option
def tail(
    place: JournalPlace, follow: bool, from_txid: int | None, outage_seconds_max: float, as_json: bool
) -> None:
    """Print JOURNAL's durable edits as JSON lines, without disturbing its writer. With --follow, the command waits out
    outages.

    Examples:
        bookledger journal tail ns1 --follow
        bookledger journal tail ns1 --from 1000 > edits.jsonl
    """
    del as_json  # edits are always printed as JSON
    outages = Outages(outage_seconds_max) if follow else None
    printed = _Printed(from_txid)
    with advise_when_stopped(lambda: printed.how_to_go_on):
        place.with_manager(lambda manager: _tail(place, manager, printed, outages))


@command()
@click.argument("file", type=FilePath(exists=True, dir_okay=False))
@click.option("--xml", "as_xml", is_flag=True, help="Print XML, as Hadoop's offline edits viewer does.")
@click.option("--check", is_flag=True, help="Only print which edits the file holds, and where it is damaged.")
@json_option
def dump(file: Path, as_xml: bool, check: bool, as_json: bool) -> None:
    """Print the edits of one segment FILE as JSON lines. The edits before any damage are printed, followed by a
    description of the damage.

    Examples:
        bookledger journal dump edits_0000000000000000001-0000000000000000042
        bookledger journal dump --check edits_inprogress_0000000000000000043
    """
    if as_xml and (as_json or check):
        raise click.UsageError("--xml prints the edits; it cannot be combined with --json or --check")
    data = _content(file)
    bar = ProgressBar(f"reading {file.name}", None, of="", prints=True, is_mostly_quick=True)
    with advise_when_stopped(lambda: f"the output is incomplete; {again(so='begin again')}"), bar:
        if check:
            _check(file, data, as_json=as_json)
        elif as_xml:
            _dump_xml(data)
        else:
            from qjm_compat.edits import iter_segment

            _print_ops(iter_segment(data))


def _content(path: Path) -> bytes:
    """Returns the content of a file; from a pipe or a device, at most as many bytes as a segment may have."""
    if path.is_file():
        return path.read_bytes()
    with path.open("rb") as pipe:
        data = pipe.read(PIPE_BYTES_MAX + 1)
    if len(data) > PIPE_BYTES_MAX:
        raise ValueError(
            f"{path} is not a regular file and is larger than {format_bytes(PIPE_BYTES_MAX)}; save its contents to "
            "a file first"
        )
    return data


class _Printed:
    """Prints edits, and tracks the progress of the output."""

    def __init__(self, next_txid: int | None) -> None:
        self.next_txid = next_txid
        self.has_edits = False

    def ops(self, ops: Sequence[EditOp]) -> None:
        _print_ops(ops)
        self.next_txid, self.has_edits = ops[-1].txid + 1, True

    @property
    def how_to_go_on(self) -> str:
        return "no edit is printed" if self.next_txid is None else f"go on with --from {self.next_txid}"


async def _tail(
    place: JournalPlace, manager: QuorumJournalManager, printed: _Printed, outages: Outages | None
) -> None:
    """Prints the durable edits; with `outages`, waits out outages and also prints later edits."""
    from qjm_compat.errors import JournalError

    uris = [one.metadata_uri for one in place.all_acceptors()]
    try:
        if outages is None:
            await _print_durable(manager, printed, waits=False)
        else:
            await _follow_until_set_back(uris, manager, printed, outages)
    except JournalError as error:
        given_up_at = time.monotonic() + (NOTICED_SECONDS_MAX if printed.has_edits and _is_lost(error) else 0)
        await check_not_rolled_back(uris, printed.how_to_go_on)
        while time.monotonic() < given_up_at:
            await asyncio.sleep(PAUSE_SECONDS)
            await check_not_rolled_back(uris, printed.how_to_go_on)
        raise


async def _follow_until_set_back(
    uris: Sequence[str], manager: QuorumJournalManager, printed: _Printed, outages: Outages
) -> None:
    """Prints edits as they become durable. Raises LedgerError if no edits arrive and the metadata was rolled back."""
    following = asyncio.create_task(_follow(manager, printed, outages, is_alone=len(uris) == 1))
    try:
        while not following.done():
            before = printed.next_txid
            await asyncio.wait([following], timeout=LOOK_SECONDS)
            if printed.next_txid == before and not following.done():
                await check_not_rolled_back(uris, printed.how_to_go_on)
        await following
    finally:
        await end_tasks([following])


async def _follow(
    manager: QuorumJournalManager, printed: _Printed, outages: Outages, *, is_alone: bool
) -> None:
    from qjm_compat.errors import JournalError

    from ..messages.journal_errors import describe_outage

    while True:
        try:
            await _print_following(manager, printed, outages)
        except JournalError as error:
            if not _is_outage(error):
                raise
            outages.failed(describe_outage(error, is_alone=is_alone), printed.how_to_go_on)
            await asyncio.sleep(PAUSE_SECONDS)


def _is_lost(error: JournalError) -> bool:
    """Returns whether an acceptor reports that the journal does not exist."""
    from qjm_compat.errors import JournalNotFormatted, QuorumFailed

    said = error.errors.values() if isinstance(error, QuorumFailed) else [error]
    return any(isinstance(one, JournalNotFormatted) for one in said)


def _is_outage(error: JournalError) -> bool:
    """Returns whether the error means that a peer did not answer. Such an error may go away with time; errors that
    acceptors report do not."""
    from qjm_compat.errors import JournalUnavailable, QuorumFailed, QuorumTimeout, SegmentUnavailable

    if isinstance(error, QuorumFailed):
        said = error.errors.values()
        return isinstance(error, QuorumTimeout) or any(isinstance(one, JournalUnavailable) for one in said)
    return isinstance(error, (JournalUnavailable, SegmentUnavailable))


async def _print_following(manager: QuorumJournalManager, printed: _Printed, outages: Outages) -> None:
    """Prints existing edits and then new ones, forever. Raises JournalError, including for an outage."""
    await _print_durable(manager, printed, waits=True)
    outages.is_over()
    while printed.next_txid is None:  # the first txid is not known yet
        await asyncio.sleep(manager.config.tail_poll_seconds)
        await _print_durable(manager, printed, waits=True)
        outages.is_over()
    async with aclosing(manager.tail_batches(printed.next_txid)) as batches:
        async for ops in batches:
            outages.is_over()
            printed.ops(ops)


async def _print_durable(manager: QuorumJournalManager, printed: _Printed, *, waits: bool) -> None:
    async with aclosing(_durable(manager, printed.next_txid, waits=waits)) as batches:
        async for ops in batches:
            printed.ops(ops)


async def _durable(
    manager: QuorumJournalManager, from_txid: int | None, *, waits: bool
) -> AsyncGenerator[list[EditOp], None]:
    """Yields the durable edits. Raises EditsMissing."""
    from qjm_compat.errors import EditsMissing
    from qjm_compat.manager.input_stream import decoded

    next_txid = from_txid
    streams = await manager.select_input_streams(from_txid or 0, in_progress_ok=True)
    if from_txid is not None and not streams:
        await _check_comes_next(manager, from_txid, waits=waits)
    for stream in streams:
        if next_txid is not None and stream.first_txid != next_txid:
            everything = await manager.select_input_streams(0, in_progress_ok=True, gaps_ok=True)
            is_oldest = stream.first_txid == everything[0].first_txid
            raise EditsMissing.before(stream.first_txid, next_txid, is_oldest=is_oldest)
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                yield decoded(batch, stream.layout_version)
        next_txid = stream.last_txid + 1


async def _check_comes_next(manager: QuorumJournalManager, txid: int, *, waits: bool) -> None:
    """Raises EditsMissing if the journal has no edits from `txid` on, unless the caller waits for `txid`, or `txid` is
    the next one to be written."""
    from qjm_compat.errors import EditsMissing

    streams = await manager.select_input_streams(0, in_progress_ok=True)
    last = streams[-1].last_txid if streams else 0
    if txid <= last + 1:
        return
    if not waits:
        raise EditsMissing(f"the journal ends at txid {last}, but {txid} was requested")
    say(f"the journal ends at txid {last}: waiting for {txid}")


def _print_ops(ops: Iterable[EditOp]) -> None:
    from qjm_compat.edits import op_to_json

    for op in ops:
        sys.stdout.write(json.dumps(op_to_json(op), separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _dump_xml(data: bytes) -> None:
    from xml.etree import ElementTree

    from qjm_compat.edits import decode_header, iter_segment, op_to_xml

    layout = decode_header(data)
    out = sys.stdout
    out.write('<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<EDITS>\n')
    out.write(f"  <EDITS_VERSION>{layout}</EDITS_VERSION>\n")
    try:
        for op in iter_segment(data):
            record = op_to_xml(op, layout)
            ElementTree.indent(record, level=1)
            # An XML parser reads an unescaped carriage return as the end of a line.
            text = ElementTree.tostring(record, encoding="unicode").rstrip("\n ").replace("\r", "&#13;")
            out.write(f"  {text.replace(' />', '/>')}\n")  # the way Hadoop's serializer ends an empty element
    finally:
        out.write("</EDITS>\n")


def _check(file: Path, data: bytes, *, as_json: bool) -> None:
    from qjm_compat.edits import scan_segment

    scan = scan_segment(data)
    fields = {"file": str(file), **_scan_fields(scan)}
    if as_json:
        fields["damage"] = [{"offset": d.offset, "end": d.end, "reason": d.reason} for d in scan.damage]
    print_record(fields, as_json=as_json)
    for damage in scan.damage if not as_json else ():
        say(f"damage at offset {damage.offset}, {format_bytes(damage.end - damage.offset)}: {damage.reason}")
    if scan.damage or not scan.is_contiguous:
        click.get_current_context().exit(1)


def _scan_fields(scan: SegmentScan) -> dict[str, Any]:
    return {
        "layout_version": scan.layout_version,
        "ops": scan.ops,
        "first_txid": scan.first_txid if scan.ops else None,
        "last_txid": scan.last_txid if scan.ops else None,
        "valid_bytes": scan.valid_bytes,
        "contiguous": scan.is_contiguous,
        "damaged_places": scan.damaged_places,
    }
