"""`bookledger ledger append`: appends the records of a file or pipe to one ledger."""

from __future__ import annotations

import base64
import json
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
from ..told.sizes import bytes_told
from ..told.stopping import told_when_stopped

JSON_LINE_BYTES_MAX = 6 * ENTRY_BYTES_MAX + 4096
"""The largest entry, encoded with an escape for each of its bytes."""


@command(
    headings={
        "A new ledger": ("--ensemble", "--write-quorum", "--ack-quorum", "--digest", "--custom"),
        "Input": ("--record-bytes", "--json-lines"),
    }
)
@metadata_option
@new_ledger_options
@click.option("--ledger", "ledger_id", type=int, help="A ledger made by `ledger create`; else a new one.")
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
    ledger_id: int | None,
    record_bytes: int | None,
    json_lines: bool,
    file: BinaryIO,
    as_json: bool,
) -> None:
    """Append FILE (or standard input), a line an entry, and close the ledger.

    Examples:
        seq 1000 | bookledger ledger append
        bookledger ledger append --ledger 7 events.log
        bookledger ledger read 7 --json | bookledger ledger append --json-lines
    """
    if json_lines and record_bytes is not None:
        raise click.UsageError("--json-lines and --record-bytes are two ways to cut the input; take one")
    if file.fileno() == standard_files.STDIN and standard_files.input_was_closed():
        raise click.UsageError("standard input is closed: name a FILE, or send something there")
    if ledger_id is not None:
        refuse_new_ledger_options("is for a new ledger; that of --ledger was settled by `ledger create`")
    writer: WriteHandle | None = None

    def how() -> str:
        if writer is not None:
            return _what_is_stored(writer)
        return "nothing was appended" + ("" if ledger_id is None else f", and ledger {ledger_id} is there")

    try:
        with told_when_stopped(how), LedgerClient(metadata_uri, config=client_config()) as client:
            if ledger_id is None:
                ledger_id = client.reserve_ledger(new)
            writer = client.claim_ledger(ledger_id, password=new.password)
            with writer:
                total_bytes = _append_all(
                    writer, _json_records(file) if json_lines else _records(file, record_bytes)
                )
    except (LedgerError, OSError) as error:
        if writer is None:
            raise
        raise LedgerError(f"{error}; {_what_is_stored(writer)}") from error
    fields = {"ledger_id": ledger_id, "entries": writer.last_add_confirmed + 1, "bytes": total_bytes}
    print_record(fields, as_json=as_json)


def _append_all(writer: WriteHandle, records: Iterator[bytes]) -> int:
    total_bytes = 0
    with Progress(f"appending to ledger {writer.ledger_id}", None) as advance:
        for number, record in enumerate(records, 1):
            try:
                writer.append_async(record)
            except EntryTooLarge as error:
                raise LedgerError(f"record {number} of the input: {error}") from error
            total_bytes += len(record)
            advance(len(record))
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


def _records(file: BinaryIO, record_bytes: int | None) -> Iterator[bytes]:
    """Yields the records of the input. A line that is too long is cut where it exceeds the limit."""
    if record_bytes is not None:
        while chunk := file.read(record_bytes):
            yield chunk
        return
    while line := file.readline(ENTRY_BYTES_MAX + 1):
        yield line.removesuffix(b"\n")


def _json_records(file: BinaryIO) -> Iterator[bytes]:
    """Decodes JSON lines. Raises LedgerError, with the number of the line, for one without a payload."""
    number = 0
    while line := file.readline(JSON_LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > JSON_LINE_BYTES_MAX:
            raise LedgerError(f"line {number} of the input has more than {bytes_told(JSON_LINE_BYTES_MAX)}")
        try:
            yield _payload_of(_object_in(line))
        except ValueError as error:
            raise LedgerError(f"line {number} of the input: {error}") from None


def _object_in(line: bytes) -> object:
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no text in UTF-8 from its byte {error.start + 1} on") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON from its character {error.pos + 1} on") from None


def _payload_of(told: object) -> bytes:
    match told:
        case {"payload_base64": _, "payload": _}:
            pass
        case {"payload_base64": str(encoded)}:
            return _decoded(encoded)
        case {"payload": str(text)}:
            return text.encode()
    raise ValueError('an entry is an object with "payload_base64" or "payload", which is text')


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:  # its message is about padding and digits
        raise ValueError("payload_base64 is no base64") from None
