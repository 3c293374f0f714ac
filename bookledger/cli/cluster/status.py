"""`bookledger cluster status`: one screen with the health of the cluster and its running repairs."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import click

from bookledger.cluster import health
from bookledger.cluster.survey import Survey, healing_row, seconds_since
from metadata.counting import facts
from metadata.counting.facts import Verdict

from ..membership.cluster_survey import lost_after_option, surveyed
from ..messages.help import command
from ..messages.interruption import advise_when_stopped, nothing_changed
from ..messages.sizes import format_bytes
from ..options import Finite, json_option, metadata_option
from ..output import print_json, print_records
from ..terminal import say

LISTED_MAX = 10
"""Maximum number of ledgers listed on the screen."""


@command()
@metadata_option
@lost_after_option
@click.option(
    "--watch",
    "watch_seconds",
    metavar="SECONDS",
    type=Finite(0.1),
    help="Refresh the output every this many seconds, until interrupted.",
)
@json_option
def status(metadata_uri: str, lost_after: float, watch_seconds: float | None, as_json: bool) -> None:
    """Show the cluster's health, and running repairs. The exit code is 0 only if every copy is in place.

    Examples:
        bookledger cluster status
        bookledger cluster status --watch 5
        bookledger cluster status --json
    """
    while True:
        with advise_when_stopped(nothing_changed) if watch_seconds is None else nullcontext():
            seen = surveyed(metadata_uri, lost_after, may_be_counted=True)
        if watch_seconds is not None and sys.stdout.isatty():
            click.clear()
        if as_json:
            print_json(fields(seen))
        else:
            _print(seen)
        if watch_seconds is None:
            sys.exit(0 if health.is_whole(seen) else 1)
        sys.stdout.flush()
        time.sleep(watch_seconds)


def fields(seen: Survey) -> dict[str, Any]:
    """Returns all fields, as `--json` prints them."""
    found = health.of_survey(seen)
    return {
        "cluster_id": seen.cluster_id,
        "whole": facts.whole(found) is Verdict.WELL,
        "why_not_whole": health.why_not_whole(found),
        "facts": health.rows(found),
        "metadata_seconds": round(seen.metadata_seconds, 4),
        "metadata": asdict(seen.metadata),
        "auditor": None if seen.auditor is None else seen.auditor.bookie.bookie_id,
        "braked": seen.view.is_braked,
        "restored": seen.hold is not None,
        "noticed": None if seen.hold is None or seen.hold.noticed is None else asdict(seen.hold.noticed),
        "bookies": bookie_rows(seen),
        "ledgers": dict(sorted(seen.ledgers.items())),
        "fragments": {condition.value: count for condition, count in sorted(seen.fragments.items())},
        "under_replicated_ledgers": seen.amiss_ledgers,
        "oldest_mark_seconds": _oldest_seconds(seen),
        "left_behind": seen.unclosed[:LISTED_MAX],
        "left_behind_ledgers": seen.left_behind,
        "counted_seconds_ago": seen.counted_seconds_ago,
        "to_copy_bytes": seen.to_copy_bytes,
        "copied_in_seconds": _seconds_left(seen),
        "healing": healing_rows(seen),
        "moving_ledgers": seen.moving,
        "not_healed": [
            {
                "ledger_id": mark.ledger_id,
                "tries": mark.tries,
                "why_not": mark.why_not,
                "lost": seen.lost_of(mark.ledger_id),
            }
            for mark in seen.marks
            if mark.why_not
        ][:LISTED_MAX],
    }


def bookie_rows(seen: Survey) -> list[dict[str, Any]]:
    """Returns one row for each bookie that was ever formatted."""
    rows = []
    for one in seen.bookies:
        lives, last = one.registration, one.last
        rows.append(
            {
                "bookie_id": one.bookie.bookie_id,
                "state": one.state,
                "absent_seconds": None
                if lives is not None or one.absent_ms is None
                else one.absent_ms // 1000,
                "address": last.address if last else None,
                "fault_domain": (last.fault_domain or None) if last else None,
                "disk_used_percent": _used_percent(last.disk_bytes_total, last.disk_bytes_free)
                if last
                else None,
                "version": (last.version or None) if last else None,
            }
        )
    return rows


def healing_rows(seen: Survey) -> list[dict[str, Any]]:
    """Returns the copies being made now."""
    return [healing_row(ledger_id, who) for ledger_id, who in sorted(seen.healing.items())]


def _used_percent(total: int, free: int) -> int | None:
    return round(100 * (total - free) / total) if total else None


def _seconds_left(seen: Survey) -> int | None:
    """Returns the estimated time left at the current rate; None if nothing is being copied."""
    rate = sum(row["bytes_per_second"] for row in healing_rows(seen))
    return round(seen.to_copy_bytes / rate) if rate else None


def _oldest_seconds(seen: Survey) -> int | None:
    oldest = min((mark.since_ms for mark in seen.marks), default=None)
    return None if oldest is None else int(seconds_since(oldest))


def _print(seen: Survey) -> None:
    known = fields(seen)
    say(f"cluster {seen.cluster_id}: {'whole' if known['whole'] else 'NOT WHOLE'}")
    for why in known["why_not_whole"]:
        say(f"  {why}")
    say(f"  metadata answers in {seen.metadata_seconds * 1000:.1f} ms; auditor: {known['auditor'] or 'none'}")
    for fact in known["facts"]:
        if fact["verdict"] == Verdict.AMISS and not fact["keeps_from_whole"]:
            say(f"  {fact['why']}")
    for endpoint, what in seen.metadata.members.items():
        say(f"  {seen.metadata.kind} {endpoint}: {what}")
    say()
    print_records(known["bookies"], as_json=False, none="there are no bookies")
    say()
    ledgers, fragments = known["ledgers"], known["fragments"]
    ago = (
        f" (the auditor counted them {seen.counted_seconds_ago:g} s ago)" if seen.counted_seconds_ago else ""
    )
    say(f"ledgers    {_counts(ledgers) or 'none'}{ago}")
    say(f"fragments  {_counts(fragments) or 'none'}")
    if seen.amiss_ledgers:
        oldest = known["oldest_mark_seconds"]
        since = "" if oldest is None else f", the oldest for {oldest} s"
        say(
            f"{seen.amiss_ledgers} ledgers are under-replicated{since}: bookledger cluster ledgers --under-replicated"
        )
    if seen.left_behind:
        named = ", ".join(map(str, seen.unclosed[:LISTED_MAX])) or seen.left_behind
        say(f"ledgers left open without a writer: {named}")
    if seen.to_copy_bytes:
        seconds = known["copied_in_seconds"]
        until = "" if seconds is None else f", done in about {seconds} s at this rate"
        say(f"{format_bytes(seen.to_copy_bytes)} are to be copied{until}")
    if seen.moving:
        say(f"copies of {seen.moving} ledgers are to be moved for balance")
    for row in known["healing"]:
        say(
            f"healing ledger {row['ledger_id']} on {row['bookie_id']}: {format_bytes(row['bytes_copied'])} in "
            f"{row['seconds']:g} s, {format_bytes(row['bytes_per_second'])} a second"
        )
    for row in known["not_healed"]:
        lost = f" (lost for good: {', '.join(row['lost'])})" if row["lost"] else ""
        tries = "1 try" if row["tries"] == 1 else f"{row['tries']} tries"
        say(f"ledger {row['ledger_id']} is not healed after {tries}: {row['why_not']}{lost}")


def _counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counted.items() if count)
