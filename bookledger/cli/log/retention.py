"""`bookledger log retention`: the retention of a log, the next segment to be deleted, and why segments are kept."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import click

from ledgers import Retention
from metadata.records.logs.retention import CountedCursor, retention_to_dict
from metadata.records.logs.retention_view import RetentionView

from ..membership.targets import LogPlace, log_place
from ..messages.help import command
from ..options import all_of, json_option
from ..output import print_json, print_record, print_records
from .fields import time_field

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_BYTES = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A time span such as `90s`, `12h` or `7d`, in seconds; a number without a unit is in seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _NUMBER.fullmatch(str(value))
        if found is None or found[2] not in {"", *_SECONDS}:
            self.fail(f"{value!r} is not a duration such as 90s, 30m, 12h or 7d.", param, ctx)
        return float(found[1]) * _SECONDS[found[2] or "s"]


class Size(click.ParamType):  # type: ignore[type-arg]
    """A size such as `512MiB` or `10GiB`, in bytes; a number without a unit is in bytes."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _NUMBER.fullmatch(str(value))
        if found is None or found[2] not in _BYTES:
            self.fail(f"{value!r} is not a size such as 500MiB, 10GiB or 1TiB.", param, ctx)
        return round(float(found[1]) * _BYTES[found[2]])


NAMES = ("age_seconds", "bytes", "cursors", "cursor_silent_seconds")

HEADING = {"Retention": ("--age", "--bytes", "--cursor", "--cursor-silent")}


retention_options = all_of(
    click.option(
        "--age", "age_seconds", type=Duration(), help="Delete segments older than this, such as 7d."
    ),
    click.option(
        "--bytes",
        type=Size(),
        help="Delete segments that are followed by this many bytes of newer records, such as 10GiB.",
    ),
    click.option(
        "--cursor",
        "cursors",
        multiple=True,
        metavar="CURSOR",
        help="Keep records that this cursor has not read; may be given several times.",
    ),
    click.option(
        "--cursor-silent",
        "cursor_silent_seconds",
        type=Duration(),
        help="Ignore a cursor that has unread records and has not moved for this long.",
    ),
)
"""Adds the options; the command gets their values as arguments named like the fields of `Retention`. An option that is
not given is None, or an empty tuple for the cursors."""


def made(before: Retention, given: dict[str, Any]) -> Retention:
    """Returns the retention with the given changes. Raises UsageError for combinations that are not allowed."""
    try:
        return replace(before, **{name: given[name] for name in NAMES if given[name] not in (None, ())})
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None


@command(headings=HEADING)
@log_place
@retention_options
@click.option(
    "--none", is_flag=True, help="Remove all retention settings except those given by other options."
)
@json_option
def retention(place: LogPlace, none: bool, as_json: bool, **given: Any) -> None:
    """Show or set the retention of LOG: the auditor deletes whole segments, oldest first, in the background.

    Options that are not given keep their values.

    Examples:
        bookledger log retention orders --age 7d --bytes 10GiB
        bookledger log retention orders --cursor billing --cursor-silent 3d
        bookledger log retention orders
        bookledger log retention orders --none
    """
    with place.opened() as log:
        wanted = made(Retention() if none else log.retention, given)
        if none or wanted != log.retention:
            log.set_retention(wanted)
        found = log.retained()
    fields = {"log": place.name, **retention_fields(found)}
    cursors = [_cursor_fields(one) for one in found.counted()]
    if as_json:
        print_json({**fields, "counted_cursors": cursors})
        return
    print_record(fields, as_json=False)
    if cursors:
        print_records(cursors, as_json=False, none="")


def retention_fields(found: RetentionView) -> dict[str, Any]:
    """Returns the fields of a log's retention. The next round deletes records before position `goes_before`; `next`
    describes the segment to be deleted after that, and why it is kept until then."""
    settled = found.record.retention
    if not settled.is_set:
        return {"retention": None}
    judgement = found.judged(time.time_ns() // 1000)
    following, why = judgement.next, "no other segment has ended"
    if found.record.legal_hold:
        why = "the log is under legal hold"
    elif following is not None:
        why = following.why
    return {
        "retention": retention_to_dict(settled),
        "goes_before": None if found.record.legal_hold else judgement.before,
        "next": {
            "first_position": None if following is None else following.first_position,
            "end_position": None if following is None else following.end_position,
            "encoded_bytes": None if following is None else following.length_bytes,
            "goes_at": None if following is None or not following.goes_us else time_field(following.goes_us),
            "stays_because": why,
        },
    }


def _cursor_fields(cursor: CountedCursor) -> dict[str, Any]:
    return {
        "cursor": cursor.name,
        "position": cursor.position,
        "silent_seconds": round(cursor.silent_seconds, 1),
        "counts": cursor.counts,
    }
