"""`bookledger ledger append`: appends the records of a file or pipe to one ledger."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

import click

from bookie.wire import ENTRY_BYTES_MAX
from ledgers import LedgerClient, LedgerError, NewLedger, WriteHandle
from ledgers.errors import EntryTooLarge
from metadata.records.ledger_record import LedgerState

from .. import standard_files
from ..config.clients import client_config
from ..options import json_option, metadata_option, new_ledger_options, refuse_new_ledger_options
from ..output import Progress, print_record
from ..told.help import command
from ..told.interruption import told_when_stopped
from . import records
from .watched_input import watched


@command(
    headings={
        "A new ledger": (
            "--ensemble",
            "--write-quorum",
            "--ack-quorum",
            "--digest",
            "--custom",
            "--strict",
        ),
        "Input": ("--delimiter", "--record-bytes", "--json-lines"),
    }
)
@metadata_option
@new_ledger_options
@click.option("--ledger", "ledger_id", type=int, help="A ledger made by `ledger create`; else a new one.")
@click.option(
    "--delimiter",
    type=records.Delimiter(),
    help=r"What ends a record instead of a newline, such as '\0' or '\r\n'; it is no part of the entry.",
)
@click.option(
    "--record-bytes", type=click.IntRange(1, ENTRY_BYTES_MAX), help="Cut the input into records of this size."
)
@click.option(
    "--json-lines",
    is_flag=True,
    help='A line is one JSON object: {"payload_base64": …}, as `ledger read --json` prints, or {"payload": text}.',
)
@click.argument("file", type=click.File("rb"), default="-")
@json_option
def append(
    metadata_uri: str,
    new: NewLedger,
    strict: bool,
    ledger_id: int | None,
    delimiter: bytes | None,
    record_bytes: int | None,
    json_lines: bool,
    file: BinaryIO,
    as_json: bool,
) -> None:
    """Append FILE (or standard input), a line an entry, and close the ledger.

    Examples:
        seq 1000 | bookledger ledger append
        bookledger ledger append --ledger 7 events.log
        find . -name '*.conf' -print0 | bookledger ledger append --delimiter '\\0'
        bookledger ledger read 7 --json | bookledger ledger append --json-lines
    """
    writer: WriteHandle | None = None

    def check() -> None:
        if writer is not None and writer.failure is not None:
            raise writer.failure

    found = _records(watched(file, check), delimiter, record_bytes, json_lines=json_lines)
    ended = b"" if record_bytes is not None else delimiter or b"\n"
    if file.fileno() == standard_files.STDIN and standard_files.input_was_closed():
        raise click.UsageError("standard input is closed: name a FILE, or send something there")
    if ledger_id is not None:
        refuse_new_ledger_options("is for a new ledger; that of --ledger was settled by `ledger create`")

    def how() -> str:
        if writer is not None:
            return _what_is_stored(writer)
        return "nothing was appended" + ("" if ledger_id is None else f", and ledger {ledger_id} is there")

    try:
        config = client_config(require_all_bookies=strict or None)
        with told_when_stopped(how), LedgerClient(metadata_uri, config=config) as client:
            if ledger_id is None:
                ledger_id = client.reserve_ledger(new)
            writer = client.claim_ledger(ledger_id, password=new.password)
            with writer:
                total_bytes = _append_all(writer, found, None if json_lines else _size_of(file), len(ended))
    except (LedgerError, OSError) as error:
        if writer is None:
            raise
        why = f"{file.name} cannot be read: {error.strerror}" if isinstance(error, OSError) else error
        raise LedgerError(f"{why}; {_what_is_stored(writer)}") from error
    fields = {"ledger_id": ledger_id, "entries": writer.last_add_confirmed + 1, "bytes": total_bytes}
    print_record(fields, as_json=as_json)


def _records(
    file: BinaryIO, delimiter: bytes | None, record_bytes: int | None, *, json_lines: bool
) -> Iterator[bytes]:
    """The records of the input, cut as the options say. Raises UsageError for more than one of them."""
    ways = {
        "--json-lines": json_lines,
        "--delimiter": delimiter is not None,
        "--record-bytes": record_bytes is not None,
    }
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} are two ways to cut the input; take one")
    if json_lines:
        return records.json_lines(file)
    if delimiter is not None:
        return records.delimited(file, delimiter)
    return records.lines(file) if record_bytes is None else records.of_size(file, record_bytes)


def _size_of(file: BinaryIO) -> int | None:
    """Bytes that are still to be read, for the progress bar; None if the input is no regular file."""
    status = os.fstat(file.fileno())
    return max(0, status.st_size - file.tell()) if stat.S_ISREG(status.st_mode) else None


def _append_all(
    writer: WriteHandle, found: Iterator[bytes], size_bytes: int | None, delimiter_bytes: int
) -> int:
    total_bytes = 0
    with Progress(f"appending to ledger {writer.ledger_id}", size_bytes) as advance:
        for number, record in enumerate(found, 1):
            try:
                writer.append_async(record)
            except EntryTooLarge as error:
                raise LedgerError(f"record {number} of the input: {error}") from error
            total_bytes += len(record)
            advance(len(record) + delimiter_bytes)
        writer.flush()
    return total_bytes


def _what_is_stored(writer: WriteHandle) -> str:
    """What a failed or interrupted append has stored, and how to go on."""
    ledger_id, last = writer.ledger_id, writer.last_add_confirmed
    if writer.record.state is LedgerState.CLOSED:
        end = f"; its last entry is {last}" if last >= 0 else " and empty"
        return f"ledger {ledger_id} is closed{end}; record {last + 2} of the input goes to a new ledger"
    confirmed = f"its last confirmed entry is {last}" if last >= 0 else "no entry was confirmed"
    return f"ledger {ledger_id} is open; {confirmed}; `bookledger ledger recover {ledger_id}` finds its end"
