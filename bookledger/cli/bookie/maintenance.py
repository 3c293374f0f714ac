"""`bookledger bookie` maintenance commands on a running bookie: gc, scrub, repair."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from metadata.records.ledger_record import BookieRef

from ..config.clients import client_config
from ..membership.cluster_survey import check_is_cluster
from ..messages.help import command, group
from ..messages.interruption import advise_when_stopped, again, nothing_changed
from ..options import Finite, all_of, json_option, metadata_option
from ..output import print_record, waiting
from ..terminal import say

if TYPE_CHECKING:
    from bookie.wire.messages import MaintainReply
    from ledgers import LedgerClient

TIMEOUT_SECONDS_DEFAULT = 3600.0
"""Long, because the time to collect, verify or repair depends on the bookie's disk and its peers."""


on_bookies = all_of(
    click.argument("names", metavar="[NAME]...", nargs=-1),
    click.option("--all", "every", is_flag=True, help="All live bookies, one after the other."),
    metadata_option,
    click.option(
        "--timeout",
        "timeout_seconds",
        type=Finite(0, min_open=True),
        default=TIMEOUT_SECONDS_DEFAULT,
        show_default=True,
        help="Seconds to wait for each bookie.",
    ),
    json_option,
)
"""Adds NAME..., --all, --metadata, --timeout and --json, which are passed to the command under their parameter names.
"""


@group()
def gc() -> None:
    """Free the space of deleted ledgers on live bookies, or suspend and resume automatic collection.

    Examples:
        bookledger bookie gc run --all
        bookledger bookie gc suspend b1
    """


@gc.command("run")
@click.option(
    "--retired",
    is_flag=True,
    help="After `bookie rebuild-index`: once more drop the ledgers that were deleted long ago and have no record.",
)
@on_bookies
def run(*, retired: bool, **asked: Any) -> None:
    """Collect garbage now, and show the result.

    Examples:
        bookledger bookie gc run --all
        bookledger bookie gc run b1 --retired
    """
    maintain("collect", retired=retired, **asked)


@gc.command()
@on_bookies
def suspend(**asked: Any) -> None:
    """Suspend garbage collection until `gc resume`.

    Examples:
        bookledger bookie gc suspend b1
    """
    maintain("suspend", **asked)


@gc.command()
@on_bookies
def resume(**asked: Any) -> None:
    """Resume automatic garbage collection.

    Examples:
        bookledger bookie gc resume b1
    """
    maintain("resume", **asked)


@gc.command()
@on_bookies
def status(**asked: Any) -> None:
    """Show past and current upkeep of the bookies.

    Examples:
        bookledger bookie gc status --all
    """
    maintain("status", **asked)


@command()
@on_bookies
def scrub(**asked: Any) -> None:
    """Verify all data on the disks of live bookies, and show damage.

    Examples:
        bookledger bookie scrub --all
        bookledger bookie scrub b1 --timeout 86400
    """
    maintain("scrub", **asked)


@command()
@click.option(
    "--adopt", default="", metavar="OLD", help="Take over the positions of a bookie that is lost for good."
)
@on_bookies
def repair(adopt: str, **asked: Any) -> None:
    """Have live bookies fetch the entries that they lack from the other replicas.

    Examples:
        bookledger bookie repair b1
        bookledger bookie repair b4 --adopt b1
    """
    if adopt and len(asked["names"]) != 1:
        raise click.UsageError("--adopt assigns the positions of OLD to one other bookie: name exactly one")
    maintain("repair", adopt, **asked)


def maintain(
    action: str,
    adopt: str = "",
    *,
    retired: bool = False,
    names: tuple[str, ...],
    every: bool,
    metadata_uri: str,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Requests maintenance from each bookie in turn and prints its report. Raises LedgerError with a list of the
    failures."""
    from bookie.wire.messages import MaintainRequest, MaintenanceAction
    from ledgers import BookieUnavailable, LedgerClient, LedgerError

    if every == bool(names):
        raise click.UsageError("name the bookies, or give --all for every live one")
    with advise_when_stopped(nothing_changed):
        check_is_cluster(metadata_uri)
    request = MaintainRequest(MaintenanceAction(action), adopt, retired)
    failures: list[str] = []
    done: list[str] = []

    def how() -> str:
        names = f"{', '.join(done)} finished" if done else "no bookie has finished"
        return f"{names}, and the work of the others is kept; {again()}"

    with advise_when_stopped(how), LedgerClient(metadata_uri, config=client_config()) as client:
        for n, bookie in enumerate(_live(client, names)):
            try:
                with waiting(f"{action} of {bookie.bookie_id}"):
                    report = _report(client.maintain_bookie(bookie, request, timeout_seconds))
            except LedgerError as error:
                failures.append(f"{bookie}: {error.why if isinstance(error, BookieUnavailable) else error}")
            else:
                if n and not as_json:
                    say()
                print_record({"bookie_id": bookie.bookie_id, **report}, as_json=as_json)
                failures += _left_undone(bookie, report)
                done.append(bookie.bookie_id)
    if failures:
        raise LedgerError("; ".join(failures))


def _left_undone(bookie: BookieRef, report: Mapping[str, Any]) -> list[str]:
    """Describes what a repair or a scrub could not do, if anything, in one line."""
    left = []
    if unread := report.get("unread", ()):
        left.append(f"{bookie}: {len(unread)} segments of its log cannot be read, the first is {unread[0]}")
    count, unrepaired = report.get("ledgers_unrepaired", 0), report.get("unrepaired", ())
    if count:
        first = (
            f", the first is ledger {unrepaired[0]['ledger_id']}: {unrepaired[0]['why']}"
            if unrepaired
            else ""
        )
        left.append(f"{bookie}: {count} ledgers are not repaired{first}")
    return left


def _live(client: LedgerClient, names: Sequence[str]) -> list[BookieRef]:
    """Returns the registered bookies with these names, each once, or all registered bookies if there are no names.
    Raises ValueError for an unknown name."""
    live = {registration.bookie.bookie_id: registration.bookie for registration in client.list_bookies()}
    if unknown := set(names) - live.keys():
        raise ValueError(f"not registered: {', '.join(sorted(unknown))}")
    if not live:
        raise ValueError("no bookie is registered")
    return [live[name] for name in dict.fromkeys(names or live)]


def _report(reply: MaintainReply) -> dict[str, Any]:
    """Returns the bookie's report. Raises LedgerError if the bookie refused or failed, or the report is malformed."""
    from bookie.wire.messages import Status, status_text
    from ledgers import LedgerError

    if reply.status is not Status.OK:
        raise LedgerError(status_text(reply))
    try:
        report = json.loads(reply.report or "{}")
    except ValueError as error:
        raise LedgerError(f"the report is not JSON: {error}") from error
    if not isinstance(report, dict):
        raise LedgerError("the report is not a JSON object")
    return {**report, "note": reply.detail} if reply.detail else report
