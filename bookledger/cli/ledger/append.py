"""`bookledger ledger append`: a file or a pipe becomes the entries of one ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import click

from bookie.wire import ENTRY_BYTES_MAX
from ledgers import LedgerClient, LedgerError, NewLedger, WriteHandle
from ledgers.errors import EntryTooLarge
from metadata.records.ledger_record import LedgerState

from ..options import json_option, metadata_option, new_ledger_options, refuse_new_ledger_options
from ..output import print_record, progress
from ..terminal import say


@click.command()
@metadata_option
@new_ledger_options
@click.option("--ledger", "ledger_id", type=int, help="A ledger made by `ledger create`; else a new one.")
@click.option(
    "--record-bytes", type=click.IntRange(1, ENTRY_BYTES_MAX), help="Cut the input into records of this size."
)
@click.argument("file", type=click.File("rb"), default="-")
@json_option
def append(
    metadata_uri: str,
    new: NewLedger,
    ledger_id: int | None,
    record_bytes: int | None,
    file: BinaryIO,
    as_json: bool,
) -> None:
    """Append FILE (or standard input), a line an entry, and close the ledger."""
    if ledger_id is not None:
        refuse_new_ledger_options("is for a new ledger; that of --ledger was settled by `ledger create`")
    writer: WriteHandle | None = None
    try:
        with LedgerClient(metadata_uri) as client:
            if ledger_id is None:
                ledger_id = client.reserve_ledger(new)
            writer = client.claim_ledger(ledger_id, password=new.password)
            with writer:
                total_bytes = _append_all(writer, _records(file, record_bytes))
    except (LedgerError, OSError) as error:
        if writer is None:
            raise
        raise LedgerError(f"{error}; {_what_is_stored(writer)}") from error
    except (KeyboardInterrupt, SystemExit):
        if ledger_id is not None:
            stored = (
                _what_is_stored(writer)
                if writer
                else f"ledger {ledger_id} is there, and nothing was appended"
            )
            say(f"bookledger: interrupted; {stored}", err=True)
        raise
    fields = {"ledger_id": ledger_id, "entries": writer.last_add_confirmed + 1, "bytes": total_bytes}
    print_record(fields, as_json=as_json)


def _append_all(writer: WriteHandle, records: Iterator[bytes]) -> int:
    total_bytes = 0
    with progress(f"appending to ledger {writer.ledger_id}", None) as advance:
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
    """What an append that failed or was interrupted has left behind, and how to go on."""
    ledger_id, last = writer.ledger_id, writer.last_add_confirmed
    if writer.record.state is LedgerState.CLOSED:
        return f"ledger {ledger_id} is closed" + (
            f"; its last entry is {last}" if last >= 0 else " and empty"
        )
    confirmed = f"its last confirmed entry is {last}" if last >= 0 else "no entry was confirmed"
    return f"ledger {ledger_id} is open; {confirmed}; `bookledger ledger recover {ledger_id}` finds its end"


def _records(file: BinaryIO, record_bytes: int | None) -> Iterator[bytes]:
    """The records of the input. A line that is too long comes as far as it shows that it is."""
    if record_bytes is not None:
        while chunk := file.read(record_bytes):
            yield chunk
        return
    while line := file.readline(ENTRY_BYTES_MAX + 1):
        yield line.removesuffix(b"\n")
