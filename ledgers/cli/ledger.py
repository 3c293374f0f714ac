"""`bookledger ledger`: create, append, read, tail, list, show, recover, delete."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from ledgers import DigestType, Entry, LedgerClient, NewLedger, WriteHandle

from .output import (
    F,
    json_option,
    ledger_fields,
    metadata_option,
    print_json,
    print_record,
    print_records,
    progress,
)

STDIN_RECORD_BYTES_MAX = 4 * 1024 * 1024


@click.group()
def ledger() -> None:
    """Create, write, read and repair ledgers."""


def shape_options(function: F) -> F:
    for option in (
        click.option("--ack-quorum", type=int, help="Bookies that confirm an entry [a majority of them]."),
        click.option("--write-quorum", type=int, help="Bookies each entry goes to [all of the ensemble]."),
        click.option(
            "--ensemble", "ensemble_size", default=3, show_default=True, help="Bookies of the ledger."
        ),
        click.option("--digest", type=click.Choice([d.value for d in DigestType]), default="crc32c"),
        password_option,
    ):
        function = option(function)
    return function


def password_option(function: F) -> F:
    return click.option(
        "--password-file", type=click.Path(path_type=Path), help="File that holds the ledger's password."
    )(function)


def _password(path: Path | None) -> bytes:
    return b"" if path is None else path.read_bytes().rstrip(b"\r\n")


@ledger.command()
@metadata_option
@shape_options
@json_option
def create(
    metadata_uri: str,
    ensemble_size: int,
    write_quorum: int | None,
    ack_quorum: int | None,
    digest: str,
    password_file: Path | None,
    as_json: bool,
) -> None:
    """Make a ledger for one later `ledger append --ledger ID`; prints its id."""
    with LedgerClient(metadata_uri) as client:
        ledger_id = client.reserve_ledger(
            NewLedger(
                ensemble_size=ensemble_size,
                write_quorum=write_quorum,
                ack_quorum=ack_quorum,
                digest=DigestType(digest),
                password=_password(password_file),
            )
        )
    _print_id(ledger_id, as_json)


@ledger.command()
@metadata_option
@shape_options
@click.option("--ledger", "ledger_id", type=int, help="A ledger made by `ledger create`; else a new one.")
@click.option("--record-bytes", type=click.IntRange(1), help="Cut the input into records of this size.")
@click.argument("file", type=click.File("rb"), default="-")
@json_option
def append(
    metadata_uri: str,
    ensemble_size: int,
    write_quorum: int | None,
    ack_quorum: int | None,
    digest: str,
    password_file: Path | None,
    ledger_id: int | None,
    record_bytes: int | None,
    file: BinaryIO,
    as_json: bool,
) -> None:
    """Append FILE (or standard input), a line an entry, and close the ledger."""
    password = _password(password_file)
    with LedgerClient(metadata_uri) as client:
        if ledger_id is not None:
            writer = client.claim_ledger(ledger_id, password=password)
        else:
            writer = client.create_ledger(
                ensemble_size=ensemble_size,
                write_quorum=write_quorum,
                ack_quorum=ack_quorum,
                digest=DigestType(digest),
                password=password,
            )
        with writer:
            total = _append_all(writer, _records(file, record_bytes))
        fields = {"ledger_id": writer.ledger_id, "entries": writer.last_add_confirmed + 1, "bytes": total}
    print_record(fields, as_json=as_json)


def _append_all(writer: WriteHandle, records: Iterator[bytes]) -> int:
    total = 0
    with progress(f"appending to ledger {writer.ledger_id}", None) as advance:
        for record in records:
            writer.append_async(record)
            total += len(record)
            advance(len(record))
        writer.flush()
    return total


def _records(file: BinaryIO, record_bytes: int | None) -> Iterator[bytes]:
    if record_bytes is not None:
        while chunk := file.read(record_bytes):
            yield chunk
        return
    while line := file.readline(STDIN_RECORD_BYTES_MAX + 1):
        yield line.rstrip(b"\n")


@ledger.command()
@metadata_option
@password_option
@click.argument("ledger_id", type=int)
@click.option("--first", type=click.IntRange(0), default=0, show_default=True)
@click.option("--last", type=click.IntRange(0), help="[the last confirmed entry]")
@click.option("--raw", is_flag=True, help="Payloads only, one after the other.")
@click.option("--recover", is_flag=True, help="Fence, recover and close the ledger first if it is open.")
@json_option
def read(
    metadata_uri: str,
    password_file: Path | None,
    ledger_id: int,
    first: int,
    last: int | None,
    raw: bool,
    recover: bool,
    as_json: bool,
) -> None:
    """Print a ledger's entries. An open one is read as far as it is confirmed, without disturbing its writer."""
    with LedgerClient(metadata_uri) as client:
        reader = client.open_ledger(ledger_id, recovery=recover, password=_password(password_file))
        write = _printer(raw, as_json)
        with progress(f"reading ledger {ledger_id}", reader.record.length_bytes) as advance:
            for entry in reader.read(first, last):
                write(entry)
                advance(len(entry.payload))
    sys.stdout.buffer.flush()


@ledger.command()
@metadata_option
@password_option
@click.argument("ledger_id", type=int)
@click.option("--first", type=click.IntRange(0), default=0, show_default=True)
@click.option("--raw", is_flag=True, help="Payloads only, one after the other.")
@json_option
def tail(
    metadata_uri: str, password_file: Path | None, ledger_id: int, first: int, raw: bool, as_json: bool
) -> None:
    """Follow an open ledger's entries as they are confirmed, until it is closed."""
    with LedgerClient(metadata_uri) as client:
        reader = client.open_ledger(ledger_id, recovery=False, password=_password(password_file))
        write = _printer(raw, as_json)
        for entry in reader.tail(first):
            write(entry)
            sys.stdout.buffer.flush()


def _printer(raw: bool, as_json: bool) -> Callable[[Entry], Any]:
    out = sys.stdout.buffer
    if raw:
        return lambda entry: out.write(entry.payload)
    if as_json:
        return lambda entry: print_json(
            {"entry_id": entry.entry_id, "payload_base64": base64.b64encode(entry.payload).decode()}
        )
    return lambda entry: out.write(b"%d\t%s\n" % (entry.entry_id, entry.payload))


@ledger.command("list")
@metadata_option
@json_option
def list_(metadata_uri: str, as_json: bool) -> None:
    """Show every ledger."""
    with LedgerClient(metadata_uri) as client:
        rows = [ledger_fields(record) for record in client.list_ledgers()]
    print_records(rows, as_json=as_json, none="there are no ledgers")


@ledger.command()
@metadata_option
@click.argument("ledger_id", type=int)
@json_option
def show(metadata_uri: str, ledger_id: int, as_json: bool) -> None:
    """Show one ledger's metadata, with its fragments and where they are."""
    with LedgerClient(metadata_uri) as client:
        record = client.describe_ledger(ledger_id)
    fields = ledger_fields(record)
    if as_json:
        fields["fragments"] = [
            {
                "first_entry": fragment.first_entry,
                "bookies": [
                    {"bookie_id": b.bookie_id, "incarnation": b.incarnation} for b in fragment.ensemble
                ],
            }
            for fragment in record.fragments
        ]
        fields["custom_metadata"] = {
            name: base64.b64encode(value).decode() for name, value in record.custom_metadata.items()
        }
    print_record(fields, as_json=as_json)
    if not as_json:
        for fragment in record.fragments:
            click.echo(f"from entry {fragment.first_entry}: {', '.join(map(str, fragment.ensemble))}")


@ledger.command()
@metadata_option
@password_option
@click.argument("ledger_id", type=int)
@json_option
def recover(metadata_uri: str, password_file: Path | None, ledger_id: int, as_json: bool) -> None:
    """Fence a ledger whose writer is gone, find its end, close it. A closed ledger is left as it is."""
    with LedgerClient(metadata_uri) as client:
        began = time.monotonic()
        reader = client.open_ledger(ledger_id, password=_password(password_file))
        seconds = time.monotonic() - began
    print_record({**ledger_fields(reader.record), "recover_seconds": round(seconds, 3)}, as_json=as_json)


@ledger.command()
@metadata_option
@click.argument("ledger_id", type=int)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(metadata_uri: str, ledger_id: int, yes: bool, as_json: bool) -> None:
    """Delete a ledger for good."""
    with LedgerClient(metadata_uri) as client:
        client.describe_ledger(ledger_id)
        if not yes:
            click.confirm(f"delete ledger {ledger_id} and everything in it?", abort=True, err=True)
        client.delete_ledger(ledger_id)
    print_record({"ledger_id": ledger_id, "deleted": True}, as_json=as_json)


def _print_id(ledger_id: int, as_json: bool) -> None:
    if as_json:
        print_json({"ledger_id": ledger_id})
    else:
        click.echo(ledger_id)
