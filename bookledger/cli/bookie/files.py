"""`bookledger bookie` commands on a stopped bookie's files: check, dump, rebuild-index, restore-cookie, salvage."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..membership.authorization import acting
from ..membership.cluster_survey import with_store
from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again
from ..messages.sizes import format_bytes
from ..options import FilePath, json_option, metadata_option
from ..output import ProgressBar, print_json, print_line, print_record
from ..terminal import say

if TYPE_CHECKING:
    from bookie.offline.log_salvage import Mended, SalvageOutcome
    from bookie.serving.cookie_check import RestoredCookie

data_option = click.option(
    "--data", type=FilePath(), required=True, help="The stopped bookie's data directory."
)


@command()
@data_option
@json_option
def check(data: Path, as_json: bool) -> None:
    """Verify a stopped bookie's directory: every record, and the index against the log. Changes nothing.

    The exit code is 1 if something is damaged or lost; the output names the file, the offset, and the remedy.

    Examples:
        bookledger bookie check --data /srv/bookie
    """
    from bookie.offline.check import check as check_directory

    with (
        advise_when_stopped(
            lambda: f"nothing was changed, and the check is incomplete; {again(so='begin again')}"
        ),
        ProgressBar("reading the log", _log_bytes(data)) as advance,
    ):
        found = check_directory(data, advance)
    if as_json:
        print_json(asdict(found))
    else:
        _print_findings(asdict(found))
    if not found.is_whole:
        raise click.exceptions.Exit(1)
    if not as_json:
        say("nothing is wrong")


def _print_findings(findings: dict[str, Any]) -> None:
    problems, notes, lost = (findings.pop(name) for name in ("problems", "notes", "lost"))
    print_record(findings, as_json=False)
    for title, found in (("note", notes), ("PROBLEM", problems)):
        for one in found:
            say(f"{title}: {one['file']} at offset {one['offset']}: {one['what']}")
    for one in lost:
        say(
            f"LOST: {one['file']} at offset {one['offset']}: {one['entries']} entries of ledger {one['ledger']}, from "
            f"{one['first_entry']} to {one['last_entry']}; start the bookie, then run: bookledger bookie repair"
        )


@command()
@click.argument("path", type=FilePath(exists=True))
@json_option
def dump(path: Path, as_json: bool) -> None:
    """Print a bookie's cookie.json, a segment of its log, or its index directory, one item per line.

    Examples:
        bookledger bookie dump /srv/bookie/cookie.json
    """
    from bookie.offline.dump import dump as lines_of

    with (
        advise_when_stopped(lambda: f"the output is incomplete; {again(so='begin again')}"),
        ProgressBar(f"reading {path.name}", None, of="lines", prints=True, is_mostly_quick=True) as advance,
    ):
        for line in lines_of(path):
            text = " ".join(f"{name}={value}" for name, value in line.items())
            print_line(line, text, as_json=as_json)
            advance(1)


@command("restore-cookie")
@metadata_option
@click.option("--data", type=FilePath(), required=True, help="The bookie's newest data directory.")
@json_option
def restore_cookie(metadata_uri: str, data: Path, as_json: bool) -> None:
    """Write a bookie's cookie to metadata that has lost it, so that the bookie can start.

    The command refuses a bookie that was decommissioned or given up, and a name that belongs to another directory.

    Examples:
        bookledger bookie restore-cookie --data /srv/bookie
    """
    from bookie.serving.cookie_check import restore_cookie as restore
    from bookie.serving.directory import read_cookie

    with acting("cookie restored", bookie=read_cookie(data).bookie_id):
        found = with_store(metadata_uri, lambda store: restore(data, store))
    fields = {"restored": found.was_missing, "must_accept_loss": found.must_accept_loss, "data": str(data)}
    print_record({**found.cookie.names, **fields}, as_json=as_json)
    if not as_json:
        say(_after_restoring(found, data))


def _after_restoring(found: RestoredCookie, data: Path) -> str:
    if not found.was_missing:
        return "the metadata already has this cookie: nothing was changed"
    if not found.must_accept_loss:
        return f"next: bookledger bookie run --data {data}"
    return (
        "the metadata has also lost how far this bookie's log had got, so it is unknown whether this is its newest "
        f"directory. If it is: bookledger bookie run --data {data} --accept-loss. It will not deny having any entry "
        f"that it may have had. Afterwards, run: bookledger bookie repair {found.cookie.bookie_id}"
    )


@command("rebuild-index")
@data_option
@json_option
def rebuild_index(data: Path, as_json: bool) -> None:
    """Rebuild a stopped bookie's index from its log.

    Examples:
        bookledger bookie rebuild-index --data /srv/bookie
    """
    from bookie.offline.rebuild import rebuild_index as rebuild

    def how() -> str:
        old = "the old index is in place" if (data / "index").exists() else "there is no index at present"
        return f"{old}, and the log is unchanged; {again()}"

    with advise_when_stopped(how), ProgressBar("reading the log", _log_bytes(data)) as advance:
        frames = rebuild(data, advance)
    print_record({"frames": frames, "data": str(data)}, as_json=as_json)


def _log_bytes(data: Path) -> int | None:
    """Returns the approximate number of bytes to read; None if it cannot be determined, for a reason that is reported
    later."""
    try:
        return sum(file.stat().st_size for file in (data / "log").iterdir())
    except OSError:
        return None


@command()
@data_option
@json_option
def salvage(data: Path, as_json: bool) -> None:
    """Repair a damaged log so that its bookie can start, and lose only the damaged parts.

    Each unreadable stretch is kept under salvaged/ and marked in the log as lost. Until `bookie repair` has
    fetched the entries of such a stretch from the other bookies, the bookie never denies having them: it answers with
    an error, or says that they are unknown.

    Examples:
        bookledger bookie salvage --data /srv/bookie
    """
    from bookie.offline.log_salvage import salvage as salvage_log

    mended: list[Mended] = []

    def report(one: Mended) -> None:
        mended.append(one)
        if not as_json:
            kept = f" (kept as salvaged/{one.copy})" if one.copy else ""
            say(f"{one.file} at offset {one.offset}: {format_bytes(one.bytes_lost)} lost: {one.what}{kept}")

    with (
        advise_when_stopped(
            lambda: f"{len(mended)} places are repaired, and their damaged bytes are kept; {again()}"
        ),
        ProgressBar("reading the log", _log_bytes(data)) as advance,
    ):
        outcome = salvage_log(data, report, advance)
    steps = _next_steps(data, mended, outcome)
    if as_json:
        print_json({**asdict(outcome), "mended": [asdict(one) for one in mended], "next": steps})
        return
    if not mended:
        say("no damage in the log: nothing was changed")
    for n, step in enumerate(steps):
        say(f"{'then' if n else 'next'}: {step}")


def _next_steps(data: Path, mended: list[Mended], outcome: SalvageOutcome) -> list[str]:
    """Returns the remaining steps for the operator, in order."""
    steps = []
    if outcome.index_problem:
        steps.append(
            f"rebuild the index ({outcome.index_problem}): bookledger bookie rebuild-index --data {data}"
        )
    if mended:
        steps.append("start the bookie")
        steps.append(
            "fetch the missing entries from the other bookies: bookledger bookie repair "
            f"{outcome.bookie_id} --metadata URI"
        )
    return steps
