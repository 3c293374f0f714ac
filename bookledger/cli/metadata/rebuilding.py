"""`bookledger metadata rebuild`: rebuilds lost metadata from the bookies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import click

from bookie.errors import BookieError
from bookie.offline.notes import notes_in
from bookie.serving.directory import read_cookie
from bookie.wire.messages import HeldNote
from bookledger.cluster.rebuilding.cluster_rebuild import BookieSource, Rebuilding
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.errors import LedgerError
from ledgers.offloading.found_copies import copies_in
from metadata import opened_store
from metadata.backup.backup_file import BackupWriter, Header
from metadata.backup.backup_restore import check_may_be_rebuilt, put_rebuilt
from metadata.errors import BackupUnusable
from metadata.records.cluster import Cookie, list_bookies
from metadata.records.cold.cold_copy import check_url
from metadata.store import MetadataStore

from ..config.clients import client_config
from ..membership.authorization import acting
from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again
from ..options import FilePath, checked_by, json_option, metadata_option
from ..output import ProgressBar, print_record, print_records
from ..terminal import say

NOBODY = (
    "no bookie is registered here: those that were running when the metadata was lost register again within "
    "seconds; for stopped bookies, give the directories"
)


@command()
@metadata_option
@click.argument("directories", nargs=-1, type=FilePath(file_okay=False, exists=True))
@click.option(
    "--cold",
    "url",
    envvar="BOOKLEDGER_COLD",
    metavar="URL",
    callback=checked_by(check_url),
    help="Object store whose ledgers are also rebuilt.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be rebuilt.")
@json_option
def rebuild(
    metadata_uri: str, directories: tuple[Path, ...], url: str | None, dry_run: bool, as_json: bool
) -> None:
    """Rebuild lost metadata from the bookies: the cluster, its ledgers, journals and logs.

    The prefix of etcd, or the SQLite file, must be empty. Bookies that were running when the metadata was lost register
    there again, and are asked for their data; for stopped bookies, give DIRECTORIES. Use as many bookies as you can. If
    there is a backup, restore it instead.

    Nothing is created, recovered or collected until the metadata is accepted: see `bookledger metadata check`.

    Examples:
        bookledger metadata rebuild --dry-run
        bookledger metadata rebuild --metadata sqlite:///srv/new.db /srv/bookie-*
    """
    bar = ProgressBar("reading the bookies' data", None, of="keys")

    async def work() -> Rebuilding:
        async with opened_store(metadata_uri, create=True) as store:
            return await _rebuilt(store, directories, url, bar, dry_run=dry_run)

    with (
        advise_when_stopped(lambda: f"there is no cluster yet; {again()}"),
        bar,
        nullcontext() if dry_run else acting("metadata rebuilt"),
    ):
        made = asyncio.run(work())
    _print(made, dry_run=dry_run, as_json=as_json)


async def _rebuilt(
    store: MetadataStore, directories: Sequence[Path], url: str | None, bar: ProgressBar, *, dry_run: bool
) -> Rebuilding:
    bookies = ConnectedBookies(store, client_config())
    try:
        await check_may_be_rebuilt(store)
        sources = [*_stopped(directories), *await _living(store, bookies)]
        rebuilding = Rebuilding(sources, await copies_in(url) if url else ())
        if not rebuilding.sources:
            raise LedgerError(NOBODY)
        with TemporaryFile() as file:
            await _write(rebuilding, file, bar)
            if not dry_run:
                await put_rebuilt(store, file, _now_ms())
        return rebuilding
    except (BackupUnusable, ValueError) as error:
        raise LedgerError(f"nothing was rebuilt: {error}") from error
    finally:
        await bookies.close()


def _stopped(directories: Sequence[Path]) -> list[BookieSource]:
    return [BookieSource(read_cookie(path), _notes_of(path)) for path in directories]


async def _notes_of(path: Path) -> AsyncGenerator[HeldNote, None]:
    try:
        for one in notes_in(path):
            yield one
    except BookieError as error:
        raise LedgerError(f"{path}: {error}") from error


async def _living(store: MetadataStore, bookies: ConnectedBookies) -> list[BookieSource]:
    sources = []
    for one in await list_bookies(store):
        info = await bookies.info(one.bookie)
        cookie = Cookie(info.cluster_id, one.bookie.bookie_id, one.bookie.incarnation)
        sources.append(BookieSource(cookie, bookies.notes(one.bookie)))
    return sources


async def _write(rebuilding: Rebuilding, file: IO[bytes], bar: ProgressBar) -> None:
    writer = BackupWriter(file, Header(rebuilding.cluster_id, _now_ms()))
    async with aclosing(rebuilding.items()) as items:
        async for item in items:
            writer.add(item)
            bar(1)
    writer.end()
    file.flush()


def _print(made: Rebuilding, *, dry_run: bool, as_json: bool) -> None:
    fields: dict[str, Any] = {
        "cluster_id": made.cluster_id,
        "bookies": len(made.sources),
        "ledgers": made.ledgers,
        "open": made.ledgers - made.closed,
        "unknown": made.unknown,
        "journals": made.journals,
        "logs": made.logs,
        "rebuilt": not dry_run,
    }
    print_record(fields, as_json=as_json)
    if made.doubts:
        print_records([asdict(one) for one in made.doubts], as_json=as_json, none="")
    if as_json:
        return
    if made.doubts_omitted:
        say(f"and {made.doubts_omitted} more")
    if not dry_run:
        say(
            "a ledger that was deleted shortly before may reappear, and one whose end no bookie knows is open until "
            "it is recovered; start all bookies, then compare their entries: bookledger metadata check"
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
