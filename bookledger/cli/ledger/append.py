"""`bookledger ledger append`: appends the records of a file or pipe to one ledger."""

from __future__ import annotations

import click

from ledgers import LedgerError, NewLedger, WriteHandle
from metadata.records.ledger_record import LedgerState

from ..membership.targets import connected
from ..messages.help import command
from ..messages.interruption import advise_when_stopped
from ..options import json_option, metadata_option, new_ledger_options, refuse_new_ledger_options
from ..output import print_record
from ..payloads.cutting import payload_of
from ..payloads.source import HEADING, Source, source_options


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
        **HEADING,
    }
)
@metadata_option
@new_ledger_options
@click.option(
    "--ledger",
    "ledger_id",
    type=int,
    help="Append to a ledger created by `ledger create`  [default: a new one]",
)
@source_options(
    'Read one JSON object per line: {"payload_base64": …}, as `ledger read --json` prints, or {"payload": text}.'
)
@json_option
def append(
    metadata_uri: str,
    new: NewLedger,
    strict: bool,
    ledger_id: int | None,
    source: Source,
    as_json: bool,
) -> None:
    """Append FILE (or standard input), one entry per line, and close the ledger.

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

    if ledger_id is not None:
        refuse_new_ledger_options("is for a new ledger; for --ledger, it was fixed by `ledger create`")

    def how() -> str:
        if writer is not None:
            return _what_is_stored(writer)
        return "nothing was appended" + ("" if ledger_id is None else f", and ledger {ledger_id} exists")

    found = source.records(payload_of, check)
    try:
        with (
            advise_when_stopped(how),
            connected(metadata_uri, require_all_bookies=strict or None) as client,
        ):
            if ledger_id is None:
                ledger_id = client.reserve_ledger(new)
            writer = client.claim_ledger(ledger_id, password=new.password)
            with writer:
                title = f"appending to ledger {ledger_id}"
                total_bytes = source.append_all(title, found, writer.append_async, writer.flush)
    except (LedgerError, OSError) as error:
        if writer is None:
            raise
        why = f"{source.file.name} cannot be read: {error.strerror}" if isinstance(error, OSError) else error
        raise LedgerError(f"{why}; {_what_is_stored(writer)}") from error
    fields = {"ledger_id": ledger_id, "entries": writer.last_add_confirmed + 1, "bytes": total_bytes}
    print_record(fields, as_json=as_json)


def _what_is_stored(writer: WriteHandle) -> str:
    """Describes the entries that a failed or interrupted append has stored, and how to continue."""
    ledger_id, last = writer.ledger_id, writer.last_add_confirmed
    if writer.record.state is LedgerState.CLOSED:
        end = f"; its last entry is {last}" if last >= 0 else " and empty"
        return f"ledger {ledger_id} is closed{end}; record {last + 2} of the input goes to a new ledger"
    confirmed = f"its last confirmed entry is {last}" if last >= 0 else "no entry was confirmed"
    return f"ledger {ledger_id} is open; {confirmed}; `bookledger ledger recover {ledger_id}` finds its end"
