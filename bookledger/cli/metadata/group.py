"""`bookledger metadata`: backup, restore, and the check of restored metadata against the bookies."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import click

from bookie.upkeep.healing.cluster_view import look
from bookledger.cluster.log_chains import BrokenSegment, broken_segments
from bookledger.cluster.survey import bookies_seen
from ledgers.errors import LedgerError
from metadata import opened_store
from metadata.backup import hold
from metadata.backup.backup_file import BackupWriter, Header
from metadata.backup.backup_restore import check as check_backup
from metadata.backup.backup_restore import restore as restore_backup
from metadata.backup.hold import HoldKind, Misfits, Restored
from metadata.backup.saving import TRIES_MAX, save
from metadata.errors import BackupUnusable
from metadata.store import MetadataStore

from ..membership.authorization import acting
from ..membership.cluster_survey import cluster_there, looking_at_ledgers, with_store
from ..messages.help import group
from ..messages.interruption import advise_when_stopped, again, nothing_changed
from ..options import FilePath, json_option, metadata_option, optional_metadata_option, yes_option
from ..output import ProgressBar, check_is_new, print_record, print_records, whole_file
from ..terminal import confirm, say
from .note_comparison import NoteComparison, compare_notes, rebuild_records
from .rebuilding import rebuild

KINDS = ("unknown", "open_elsewhere", "closed_elsewhere", "lacking", "cut_short")
"""Kinds of mismatches that a bookie finds, in the order in which they are shown."""

ACCEPTED = "accepted: ledgers are created, recovered and collected again"


@group()
def metadata() -> None:
    """Back up and restore the metadata, or rebuild it from the bookies if there is no backup.

    Examples:
        bookledger metadata backup monday.backup
        bookledger metadata restore --check monday.backup
    """


metadata.add_command(rebuild)


@metadata.command()
@metadata_option
def roles(metadata_uri: str) -> None:
    """Print the etcdctl commands that create a role for each kind of process, with the least privileges.

    Run them once as etcd's root; then grant the roles to users: `etcdctl user grant-role USER ROLE`.

    Examples:
        bookledger metadata roles --metadata etcd://etcd1:2379/prod
    """
    from metadata.etcd.etcd_roles import etcdctl_commands

    for line in etcdctl_commands(metadata_uri):
        say(line)


@metadata.command()
@metadata_option
@click.argument("file", type=FilePath(dir_okay=False))
@json_option
def backup(metadata_uri: str, file: Path, as_json: bool) -> None:
    """Write all metadata to a new FILE, while the cluster is in use.

    Examples:
        bookledger metadata backup monday.backup
    """
    check_is_new(file)
    bar = ProgressBar("backing up", None, of="keys")

    async def work(store: MetadataStore) -> int:
        name = await cluster_there(store)
        for _ in range(TRIES_MAX):
            with suppress(_JournalsChanged):
                return await _save(store, file, name, bar)
        raise LedgerError(f"journals or logs changed during each of {TRIES_MAX} tries: try again later")

    with advise_when_stopped(lambda: f"{file} was not written; {again(so='begin again')}"), bar:
        keys = with_store(metadata_uri, work)
    print_record({"file": str(file), "keys": keys, "bytes": file.stat().st_size}, as_json=as_json)


class _JournalsChanged(Exception):
    """The backup is inconsistent, because journals or logs changed."""


async def _save(store: MetadataStore, file: Path, name: str, bar: ProgressBar) -> int:
    """Writes a backup once; returns its number of keys. Raises _JournalsChanged if it must be retried."""
    with whole_file(file) as unfinished:
        writer = BackupWriter(unfinished, Header(name, _now_ms()))
        if not await save(store, writer, bar):
            raise _JournalsChanged
        writer.end()
    return writer.keys


@metadata.command()
@optional_metadata_option
@click.argument("file", type=FilePath(dir_okay=False, exists=True))
@click.option("--check", "only_check", is_flag=True, help="Only verify the file; change nothing.")
@json_option
def restore(metadata_uri: str | None, file: Path, only_check: bool, as_json: bool) -> None:
    """Restore the metadata in FILE to an empty prefix of etcd or a new SQLite file.

    Nothing is created, recovered or collected until the metadata is accepted: see `bookledger metadata check`. If the
    metadata was emptied while bookies were running, their registrations since then are deleted.

    Examples:
        bookledger metadata restore --check monday.backup
        bookledger metadata restore --metadata sqlite:///srv/new.db monday.backup
    """
    if metadata_uri is None and not only_check:
        raise click.UsageError("--metadata names the store to restore to")
    with open(file, "rb") as opened:
        header, keys = _checked(file, opened)
        if metadata_uri is not None and not only_check:
            _restore(metadata_uri, opened, keys)
    fields = {
        "file": str(file),
        "cluster_id": header.cluster_id,
        "made": _time(header.created_ms),
        "keys": keys,
    }
    print_record({**fields, "restored": not only_check}, as_json=as_json)
    if not only_check and not as_json:
        say("start the bookies, then compare their entries with the metadata: bookledger metadata check")


def _checked(file: Path, opened: IO[bytes]) -> tuple[Header, int]:
    """Verifies a backup. Raises LedgerError if it cannot be used."""
    bar = ProgressBar("reading the backup", file.stat().st_size, is_mostly_quick=True)
    try:
        with advise_when_stopped(nothing_changed), bar:
            return check_backup(opened, bar)
    except BackupUnusable as error:
        raise LedgerError(f"{file} cannot be restored: {error}") from error


def _restore(metadata_uri: str, opened: IO[bytes], keys: int) -> None:
    bar = ProgressBar("restoring", keys, of="keys")

    async def work() -> None:
        async with opened_store(metadata_uri, create=True) as store:
            with bar:
                await restore_backup(store, opened, _now_ms(), bar)

    with advise_when_stopped(
        lambda: f"{bar.done} of {keys} keys are written, which is not yet a cluster; {again()}"
    ):
        asyncio.run(work())


@metadata.command()
@metadata_option
@click.option(
    "--accept", is_flag=True, help="Accept the metadata: ledgers are created, recovered and collected again."
)
@click.option("--dry-run", is_flag=True, help="With --accept: only show what would be changed.")
@yes_option
@json_option
def check(metadata_uri: str, accept: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Compare the metadata with the entries and notes of the bookies, and logs with their ledgers. The exit code is 0
    only if all of them match.

    With --accept, records that are older than the notes of live bookies, and records that the metadata lost, are
    rebuilt before the hold ends.

    Examples:
        bookledger metadata check
        bookledger metadata check --accept
    """
    with advise_when_stopped(nothing_changed):
        with looking_at_ledgers():
            restored, found = _compared(metadata_uri)
            broken = with_store(metadata_uri, broken_segments)
        noted = compare_notes(metadata_uri)
    if restored is None:
        print_record({"restored": False, **noted.who_waits}, as_json=as_json)
    else:
        if not as_json:
            say(_why_held(restored))
        rows = [_row(name, one) for name, one in found.items()]
        print_records(rows, as_json=as_json, none="there are no bookies")
    if noted.listed:
        print_records(noted.rows, as_json=as_json, none="")
    if noted.stale:
        print_records(noted.stale_rows, as_json=as_json, none="")
    _print_broken(broken, as_json=as_json)
    fits = noted.fits and not broken
    if restored is not None:
        fits = fits and bool(found) and all(one is not None and one.fits for one in found.values())
    lost = _what_is_lost(found, noted, broken)
    if accept and not dry_run:
        _accept(metadata_uri, noted, lost, fits=fits, yes=yes, as_json=as_json)
        return
    if accept and not as_json and not fits:
        say(lost)
    elif not as_json and (restored is not None or not fits):
        say(_what_next(found, noted, broken))
    sys.exit(0 if fits else 1)


def _accept(
    metadata_uri: str, noted: NoteComparison, lost: str, *, fits: bool, yes: bool, as_json: bool
) -> None:
    """Rebuilds the records, and only then ends the hold."""
    if not fits and yes and not as_json:
        say(lost)
    elif not fits and not yes:
        confirm(f"{lost} Accept it anyway?")
    with acting("restored metadata accepted"):
        if (
            noted.chained
        ):  # starts a hold if there is none: no writer may use these records until they are up to date
            with_store(metadata_uri, lambda store: hold.begin(store, backup_ms=0, now_ms=_now_ms()))
        made = rebuild_records(metadata_uri)
        with_store(metadata_uri, lambda store: hold.accept(store, made.heard))
    doubted = [one for one in made.chains if one.doubts]
    if not as_json:
        count = made.ledgers + len(made.chains)
        say(f"{count} records were rebuilt from the bookies' notes; {ACCEPTED}" if count else ACCEPTED)
        for one in doubted:
            say(f"not whole: {one.about}: {'; '.join(one.doubts)}")
    if doubted:
        sys.exit(1)


def _why_held(restored: Restored) -> str:
    if restored.noticed is not None:
        return f"held back since {_time(restored.restored_ms)}: {restored.noticed}"
    if restored.is_rebuilt:
        return f"rebuilt {_time(restored.restored_ms)} from the bookies' data"
    made = f"of {_time(restored.backup_ms)}" if restored.backup_ms else "of another tool"
    return f"restored {_time(restored.restored_ms)} from a backup {made}"


def _compared(metadata_uri: str) -> tuple[Restored | None, dict[str, Misfits | None]]:
    """Returns every bookie's report; None for bookies that have not reported yet."""

    async def work(store: MetadataStore) -> tuple[Restored | None, dict[str, Misfits | None]]:
        await cluster_there(store)
        restored = await hold.read(store)
        if restored is None:
            return None, {}
        reports = await hold.read_misfits(store, restored)
        names = [one.bookie.bookie_id for one in bookies_seen(await look(store, 0), {})]
        return restored, {name: reports.get(name) for name in names}

    return with_store(metadata_uri, work)


def _row(name: str, one: Misfits | None) -> dict[str, Any]:
    kinds = {kind: None if one is None else _kind(getattr(one, kind)) for kind in KINDS}
    return {"bookie_id": name, "compared": one is not None, **kinds}


def _kind(kind: HoldKind) -> dict[str, Any]:
    return {"ledgers": kind.ledgers, **({"first": list(kind.first[:10])} if kind.first else {})}


def _print_broken(broken: Sequence[BrokenSegment], *, as_json: bool) -> None:
    """Prints the segments that do not match their logs."""
    rows = [
        {
            "log": one.log,
            "first_position": one.segment.first_position,
            "end_position": one.segment.end_position,
            "ledger_id": one.segment.ledger_id,
            "broken": one.why,
        }
        for one in broken
    ]
    if rows:
        print_records(rows, as_json=as_json, none="")


def _what_is_lost(
    found: dict[str, Misfits | None], noted: NoteComparison, broken: Sequence[BrokenSegment]
) -> str:
    silent = [name for name, one in found.items() if one is None]
    lines = []
    if silent:
        lines.append(f"{', '.join(silent)} have not compared their entries yet.")
    reports = [one for one in found.values() if one is not None]
    if noted.what_will_be:
        lines.append(noted.what_will_be)
    if any(one.open_elsewhere.ledgers for one in reports):
        lines.append(
            "Open ledgers without notes cannot be recovered if bookies hold more entries than their records "
            "know; `bookledger ledger salvage` copies the entries that exist."
        )
    if any(one.cut_short.ledgers for one in reports):
        lines.append(
            "Ledgers that are cut short were closed before confirmed entries; "
            "`bookledger ledger salvage --past-the-end` copies these."
        )
    if any(one.closed_elsewhere.ledgers for one in reports):
        lines.append(
            "Copies that the metadata places elsewhere will be dropped if the copies there are complete."
        )
    if any(one.lacking.ledgers for one in reports):
        lines.append(
            "Some copies listed in the metadata are missing or incomplete; they are healed from others, if any exist."
        )
    if broken:
        lines.append(
            "Logs have segments that cannot be read; to continue after them, truncate the log there."
        )
    return " ".join(lines)


def _what_next(
    found: dict[str, Misfits | None], noted: NoteComparison, broken: Sequence[BrokenSegment]
) -> str:
    if any(one is None for one in found.values()):
        return "start all bookies; each compares its entries within seconds"
    if noted.waiting and not (noted.listed or broken or found):
        return f"{noted.what_will_be} Accept that: bookledger metadata check --accept"
    if not broken and noted.fits and all(one is not None and one.fits for one in found.values()):
        return "everything matches: bookledger metadata check --accept"
    return (
        "nothing is changed until the metadata is accepted; if there is a newer backup, restore that one elsewhere and "
        "start the bookies there. Otherwise: bookledger metadata check --accept"
    )


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
