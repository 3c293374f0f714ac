"""`bookledger metadata`: copies of a cluster's metadata, and what becomes of one that is restored."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from bookie.disk.disk import sync_directory
from ledgers.errors import LedgerError
from metadata import open_store
from metadata.backup import hold
from metadata.backup.file import BackupWriter, Header
from metadata.backup.hold import Kind, Misfits, Restored
from metadata.backup.restoring import check as check_backup
from metadata.backup.restoring import restore as restore_backup
from metadata.backup.saving import TRIES_MAX, save
from metadata.errors import BackupUnusable
from metadata.records.cluster import cluster_id
from metadata.store import MetadataStore

from ..membership.looking import NO_CLUSTER, surveyed, with_store
from ..options import json_option, metadata_option, optional_metadata_option
from ..output import print_record, print_records, progress
from ..terminal import say

ACCEPTED = "accepted: ledgers are created, recovered and collected again"


@click.group()
def metadata() -> None:
    """Keep copies of the metadata, and bring one back."""


@metadata.command()
@metadata_option
def roles(metadata_uri: str) -> None:
    """Print the etcdctl commands that make a role for each kind of process, with what it needs and no more.

    Run them as etcd's root, once; then give the roles to users: `etcdctl user grant-role USER ROLE`.
    """
    from metadata.etcd.access import etcdctl_commands

    for command in etcdctl_commands(metadata_uri):
        say(command)


@metadata.command()
@metadata_option
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def backup(metadata_uri: str, file: Path, as_json: bool) -> None:
    """Write all metadata into a new FILE, while the cluster is in use."""
    if not file.parent.is_dir():
        raise LedgerError(f"there is no directory {file.parent}")
    if file.exists():
        raise LedgerError(f"{file} exists already; give another name, so that no backup is lost")

    async def work(store: MetadataStore) -> int:
        name = await cluster_id(store)
        if name is None:
            raise LedgerError(NO_CLUSTER)
        for _ in range(TRIES_MAX):
            keys = await _save_beside(store, file, name)
            if keys:
                return keys
        raise LedgerError(f"journals changed during each of {TRIES_MAX} tries: try again later")

    keys = with_store(metadata_uri, work)
    print_record({"file": str(file), "keys": keys, "bytes": file.stat().st_size}, as_json=as_json)


async def _save_beside(store: MetadataStore, file: Path, name: str) -> int:
    """One try; the keys in it, 0 where another is due. The file has its name only when it is whole and on disk."""
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.name, suffix=".part") as unfinished:
        writer = BackupWriter(unfinished.file, Header(name, _now_ms()))
        if not await save(store, writer):
            return 0
        writer.end()
        unfinished.flush()
        os.fdatasync(unfinished.fileno())
        os.link(unfinished.name, file)  # never over another one
    sync_directory(file.parent)
    return writer.keys


@metadata.command()
@optional_metadata_option
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--check", "only_check", is_flag=True, help="Read the file and touch nothing.")
@json_option
def restore(metadata_uri: str | None, file: Path, only_check: bool, as_json: bool) -> None:
    """Put the metadata of FILE where there is no cluster, be it an empty prefix of etcd or a new SQLite file.

    Nothing is created, recovered or collected until it is accepted: see `bookledger metadata check`.
    """
    if metadata_uri is None and not only_check:
        raise click.UsageError("--metadata says where it shall be restored")
    with open(file, "rb") as opened:
        try:
            header, keys = check_backup(opened)
        except BackupUnusable as error:
            raise LedgerError(f"{file} cannot be restored: {error}") from error
        if metadata_uri is not None and not only_check:

            async def work() -> None:
                store = await open_store(metadata_uri, create=True)
                try:
                    with progress("restoring", keys) as advance:
                        await restore_backup(store, opened, _now_ms(), advance)
                finally:
                    await store.close()

            asyncio.run(work())
    fields = {
        "file": str(file),
        "cluster_id": header.cluster_id,
        "made": _time(header.created_ms),
        "keys": keys,
    }
    print_record({**fields, "restored": not only_check}, as_json=as_json)
    if not only_check and not as_json:
        say("start the bookies, then see whether they hold what it says: bookledger metadata check")


@metadata.command()
@metadata_option
@click.option(
    "--accept", is_flag=True, help="From now on ledgers are created, recovered and collected again."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def check(metadata_uri: str, accept: bool, yes: bool, as_json: bool) -> None:
    """Show whether restored metadata fits to what the bookies hold. The exit code is 0 only if it does."""
    restored, found = _compared(metadata_uri)
    if restored is None:
        print_record({"restored": False}, as_json=as_json)
        return
    rows = [_row(name, one) for name, one in found.items()]
    if not as_json:
        made = f"of {_time(restored.backup_ms)}" if restored.backup_ms else "of some other tool's"
        say(f"restored {_time(restored.restored_ms)} from a backup {made}")
    print_records(rows, as_json=as_json, none="there are no bookies")
    fits = bool(found) and all(one is not None and one.fits for one in found.values())
    if accept:
        if not fits and not yes:
            click.confirm(_what_is_lost(found), abort=True, err=True)
        with_store(metadata_uri, hold.accept)
        if not as_json:
            say(ACCEPTED)
        return
    if not as_json:
        say(_what_next(found))
    sys.exit(0 if fits else 1)


def _compared(metadata_uri: str) -> tuple[Restored | None, dict[str, Misfits | None]]:
    """What every bookie has told, None for those that have not yet."""
    seen = surveyed(metadata_uri, 0.0)

    async def work(store: MetadataStore) -> tuple[Restored | None, dict[str, Misfits]]:
        restored = await hold.read(store)
        return restored, {} if restored is None else await hold.told(store, restored)

    restored, told = with_store(metadata_uri, work)
    return restored, {one.bookie.bookie_id: told.get(one.bookie.bookie_id) for one in seen.bookies}


def _row(name: str, one: Misfits | None) -> dict[str, Any]:
    if one is None:
        return {
            "bookie_id": name,
            "compared": False,
            "unknown": None,
            "open_elsewhere": None,
            "closed_elsewhere": None,
            "lacking": None,
        }
    return {
        "bookie_id": name,
        "compared": True,
        "unknown": _kind(one.unknown),
        "open_elsewhere": _kind(one.open_elsewhere),
        "closed_elsewhere": _kind(one.closed_elsewhere),
        "lacking": _kind(one.lacking),
    }


def _kind(kind: Kind) -> dict[str, Any]:
    return {"ledgers": kind.ledgers, **({"first": list(kind.first[:10])} if kind.first else {})}


def _what_is_lost(found: dict[str, Misfits | None]) -> str:
    silent = [name for name, one in found.items() if one is None]
    lines = []
    if silent:
        lines.append(f"{', '.join(silent)} have not compared what they hold.")
    told = [one for one in found.values() if one is not None]
    if any(one.open_elsewhere.ledgers for one in told):
        lines.append("Open ledgers may be closed before entries that were confirmed.")
    if any(one.closed_elsewhere.ledgers for one in told):
        lines.append(
            "Copies that are placed elsewhere will be dropped, where those that are placed are whole."
        )
    if any(one.lacking.ledgers for one in told):
        lines.append(
            "Some copies that it names are not there, or not whole; they are healed from others, if there are."
        )
    if any(one.unknown.ledgers for one in told):
        lines.append("Ledgers newer than the backup stay on disk and cannot be read.")
    return " ".join([*lines, "Accept it all the same?"])


def _what_next(found: dict[str, Misfits | None]) -> str:
    if any(one is None for one in found.values()):
        return "start all bookies; each compares what it holds within seconds"
    if all(one is not None and one.fits for one in found.values()):
        return "everything fits: bookledger metadata check --accept"
    return (
        "nothing of this is touched until it is accepted; if there is a newer backup, restore that one elsewhere and "
        "start the bookies there. Otherwise: bookledger metadata check --accept"
    )


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
