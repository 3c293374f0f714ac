"""`bookledger journal fsck`: checks that a journal is complete and consistent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again
from ..options import Finite, json_option, yes_option
from ..output import ProgressBar, long_work, narrator, print_line, print_record
from ..terminal import confirm, say
from .options import JournalPlace, journal_place

if TYPE_CHECKING:
    from qjm_compat.transfer.checking.journal_findings import JournalFindings
    from qjm_compat.transfer.checking.orphans import Deleted

ORPHAN_AGE_SECONDS_DEFAULT = 3600.0


@command()
@journal_place
@click.option("--deep", is_flag=True, help="Also decode every edit.")
@click.option(
    "--delete-orphans",
    is_flag=True,
    help="Delete ledgers that are unreferenced both now and --orphan-age later, if there are no other problems and "
    "none of their data is needed. The command waits in the meantime.",
)
@yes_option
@click.option(
    "--orphan-age",
    "orphan_age_seconds",
    type=Finite(0),
    default=ORPHAN_AGE_SECONDS_DEFAULT,
    show_default=True,
    metavar="SECONDS",
    help="Keep ledgers younger than this, because a record may be about to refer to them.",
)
@json_option
def fsck(
    place: JournalPlace,
    deep: bool,
    delete_orphans: bool,
    yes: bool,
    orphan_age_seconds: float,
    as_json: bool,
) -> None:
    """Read all of JOURNAL at every acceptor, and print a line for each problem. The exit code is 1 if there are any.

    Writers and readers are not disturbed.

    Examples:
        bookledger journal fsck ns1 --deep
        bookledger journal fsck ns1 --acceptor jn1 --acceptor jn2 --acceptor jn3
    """
    with advise_when_stopped(
        lambda: f"nothing was changed, and the check is incomplete; {again(so='begin again')}"
    ):
        found = asyncio.run(_check(place, orphan_age_seconds, deep=deep))
    _print(found, as_json=as_json)
    left = len(found.problems)
    if found.orphans and delete_orphans:
        left -= _delete(place, found, orphan_age_seconds, yes=yes, as_json=as_json)
    if left:
        click.get_current_context().exit(1)


async def _check(place: JournalPlace, orphan_age_seconds: float, *, deep: bool) -> JournalFindings:
    from qjm_compat.transfer.checking.fsck import check_journal

    await place.check_named()
    async with place.inspector() as inspector:
        with ProgressBar(f"checking {place.journal_id}", None) as advance:
            return await check_journal(
                inspector, deep=deep, orphan_age_seconds=orphan_age_seconds, on_bytes=advance
            )


def _delete(
    place: JournalPlace, found: JournalFindings, orphan_age_seconds: float, *, yes: bool, as_json: bool
) -> int:
    from qjm_compat.transfer.checking.orphans import refuse_unless_whole, seconds_until_old

    refuse_unless_whole(found)
    if not yes:
        confirm(f"delete {len(found.orphans)} ledgers that nothing refers to?")
    step = narrator(quiet=as_json)
    if left := seconds_until_old(found, orphan_age_seconds):
        step(f"checking again in {left:.0f} s that nothing refers to them")
    with long_work(
        "deleting orphans", lambda: f"only ledgers that nothing refers to were deleted; {again()}"
    ):
        done = asyncio.run(_deleted(place, found, orphan_age_seconds))
    for orphan in done.kept:
        print_line({"kept": orphan.ledger_id, "why": orphan.why_kept}, f"kept: {orphan}", as_json=as_json)
    return done.count


async def _deleted(place: JournalPlace, found: JournalFindings, orphan_age_seconds: float) -> Deleted:
    from qjm_compat.transfer.checking.orphans import delete_orphans

    async with place.inspector() as inspector:
        return await delete_orphans(inspector, found, orphan_age_seconds)


def _print(found: JournalFindings, *, as_json: bool) -> None:
    for problem in found.problems:
        fields = {"where": problem.where, "problem": problem.what}
        print_line(fields, f"problem: {problem}", as_json=as_json)
    for note in found.notes if not as_json else ():
        say(f"note: {note}")
    checked: dict[str, Any] = {
        "acceptors": list(found.acceptors),
        "segments": found.segments,
        "first_txid": found.first_txid,
        "last_txid": found.last_txid,
        "ops_read": found.ops,
        "bytes_read": found.bytes,
        "problems": len(found.problems),
        "orphans": [orphan.ledger_id for orphan in found.orphans],
    }
    print_record({**checked, "notes": found.notes} if as_json else checked, as_json=as_json)
