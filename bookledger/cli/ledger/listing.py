"""`bookledger ledger list`: lists ledgers by filters, a page at a time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any

import click

from bookledger.cluster.custom_metadata_filter import CustomMetadataFilter
from bookledger.cluster.open_ledgers import (
    ASK_SECONDS_MAX,
    ASKED_AT_ONCE_MAX,
    UNKNOWN,
    Open,
    ask_bookies,
    confirmed_fields,
)
from ledgers.aio import LedgerClient
from metadata.records.ledger_record import LedgerRecord, LedgerState

from ..config.clients import client_config
from ..membership.cluster_survey import check_is_cluster, looking_at_ledgers
from ..membership.targets import connected
from ..messages.help import command
from ..messages.interruption import advise_when_stopped, again
from ..messages.sizes import format_bytes, short_size
from ..options import Finite, Moment, json_option, metadata_option
from ..output import custom_fields, ledger_fields, print_json, print_records
from ..terminal import say, shown_bytes

Asked = Callable[[Sequence[LedgerRecord]], Open]


@contextmanager
def asking_bookies(metadata_uri: str) -> Iterator[Asked]:
    """Yields a function that asks bookies about a page of ledgers. Its client is created for the first ledger that is
    not closed.

    Once the bookies of a page have taken the whole time limit, bookies are not asked about any further ledgers, so that
    the caller does not wait repeatedly for bookies that hang.
    """
    client: LedgerClient | None = None
    is_late = False

    def asked(records: Sequence[LedgerRecord]) -> Open:
        nonlocal client, is_late
        if is_late or all(record.is_closed for record in records):
            return {}
        client = client or LedgerClient(metadata_uri, config=client_config())
        began = time.monotonic()
        seen = runner.run(ask_bookies(client, records))
        is_late = time.monotonic() - began >= ASK_SECONDS_MAX
        return seen

    with asyncio.Runner() as runner:
        try:
            yield asked
        finally:
            if client is not None:
                runner.run(client.close())


@command(
    "list",
    headings={
        "Filters": ("--state", "--older-than", "--since", "--until", "--bookie", "--custom"),
        "Paging": ("--first", "--limit", "--newest"),
    },
)
@metadata_option
@click.option(
    "--state", type=click.Choice([state.value for state in LedgerState]), help="Only ledgers in this state."
)
@click.option(
    "--older-than",
    metavar="SECONDS",
    type=Finite(0),
    help="Only ledgers created at least this many seconds ago.",
)
@click.option(
    "--since",
    type=Moment(),
    help="Only ledgers that may have entries from this time on, according to their records.",
)
@click.option("--until", type=Moment(), help="Only ledgers that may have entries from before this time.")
@click.option("--bookie", "bookie_id", metavar="NAME", help="Only ledgers with entries on this bookie.")
@click.option(
    "--custom",
    metavar="KEY[=VALUE|~PART]",
    multiple=True,
    help="Only ledgers with this custom metadata; KEY~PART matches PART within the value; if repeated, all must match.",
)
@click.option("--first", "first_ledger", type=click.IntRange(0), default=0, help="First id to print.")
@click.option("--limit", type=click.IntRange(1), help="Print at most this many ledgers, and how to continue.")
@click.option("--newest", is_flag=True, help="Print the ledgers with the highest ids, newest first.")
@json_option
def list_(
    metadata_uri: str,
    state: str | None,
    older_than: float | None,
    since: datetime | None,
    until: datetime | None,
    bookie_id: str | None,
    custom: tuple[str, ...],
    first_ledger: int,
    limit: int | None,
    newest: bool,
    as_json: bool,
) -> None:
    """List all ledgers, or those that match the filters, sorted by id.

    The bookies of ledgers that are not closed report the last confirmed entry, the size so far ("+"), and the address
    of the writer.

    Examples:
        bookledger ledger list --state open --older-than 86400
        bookledger ledger list --custom owner=team-a --limit 100
        bookledger ledger list --newest --limit 20
    """
    customs = [CustomMetadataFilter.of(one) for one in custom]
    made_before_ms = None if older_than is None else int((time.time() - older_than) * 1000)

    def is_wanted(record: LedgerRecord) -> bool:
        return (
            state in (None, record.state.value)
            and (made_before_ms is None or record.created_ms <= made_before_ms)
            and record.may_hold(since, until)
            and (bookie_id is None or record.names_bookie(bookie_id))
            and all(one.is_of(record) for one in customs)
        )

    shown = _Shown()
    with (
        advise_when_stopped(shown.how),
        connected(metadata_uri) as client,
        looking_at_ledgers(prints=as_json) as advance,
        asking_bookies(metadata_uri) as asked,
    ):
        wanted: Iterator[LedgerRecord] = filter(
            is_wanted, _count_progress(client.list_ledgers(first_ledger=first_ledger), advance)
        )
        if newest:
            wanted = reversed(deque(wanted, maxlen=limit))
        if as_json:
            shown.lines(islice(wanted, limit), asked)
        records = [] if as_json else list(islice(wanted, None if limit is None else limit + 1))
        rows = _rows(records[:limit], asked)
    if not records and shown.last_ledger is None:
        check_is_cluster(metadata_uri)
    if not as_json:
        _print(records, rows, limit)


def _print(records: list[LedgerRecord], rows: list[dict[str, Any]], limit: int | None) -> None:
    listed = records[:limit]
    print_records(rows, as_json=False, none="there are no matching ledgers")
    if listed:
        say(_total(listed))
    if limit is not None and len(records) > limit:
        say(f"more follow: --first {records[-1].ledger_id}")


def _rows(records: Sequence[LedgerRecord], asked: Asked) -> list[dict[str, Any]]:
    rows = [_row(one, confirmed_fields(one, seen)) for page, seen in _seen(records, asked) for one in page]
    if all(record.is_closed for record in records):
        for row in rows:
            del row["writer"]
    return rows


def _row(record: LedgerRecord, confirmed: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that fit on a line; `--json` and `ledger show` print all fields."""
    shape = record.shape
    last, size, writer = confirmed.values()
    so_far = "" if record.is_closed else "+"
    return {
        "ledger": record.ledger_id,
        "state": record.state.value,
        "last_entry": UNKNOWN if last is None else f"{last}{so_far}",
        "size": UNKNOWN if size is None else f"{short_size(size)}{so_far}",
        "E/Qw/Qa": f"{shape.ensemble_size}/{shape.write_quorum}/{shape.ack_quorum}",
        "frag": len(record.fragments),
        "made_at_(UTC)": f"{record.created_at:%Y-%m-%d %H:%M}" if record.created_at else None,
        "writer": None if record.is_closed else writer or UNKNOWN,
        "custom": " ".join(
            f"{name}={shown_bytes(value)}" for name, value in sorted(record.custom_metadata.items())
        ),
    }


def _total(listed: list[LedgerRecord]) -> str:
    size = sum(record.length_bytes or 0 for record in listed)
    still = sum(not record.is_closed for record in listed)
    ledgers = "1 ledger" if len(listed) == 1 else f"{len(listed)} ledgers"
    return f"{ledgers}, {still} not closed; the closed ones have {format_bytes(size)}"


def _fields(record: LedgerRecord, seen: Open) -> dict[str, Any]:
    return {**ledger_fields(record), **confirmed_fields(record, seen), **custom_fields(record)}


class _Shown:
    """Prints ledgers as JSON lines, and tracks the last one, so that a stopped command can be resumed after it."""

    def __init__(self) -> None:
        self.last_ledger: int | None = None

    def lines(self, records: Iterable[LedgerRecord], asked: Asked) -> None:
        for page, seen in _seen(records, asked):
            for record in page:
                print_json(_fields(record, seen))
                self.last_ledger = record.ledger_id

    def how(self) -> str:
        if self.last_ledger is None:
            return f"perhaps no ledger was printed; {again(so='begin again')}"
        return f"ledgers up to {self.last_ledger} are printed, perhaps more; go on with --first {self.last_ledger + 1}"


def _seen(records: Iterable[LedgerRecord], asked: Asked) -> Iterator[tuple[list[LedgerRecord], Open]]:
    """Yields pages of ledgers, each with the answers of their bookies, which are asked concurrently."""
    left = iter(records)
    while page := list(islice(left, ASKED_AT_ONCE_MAX)):
        yield page, asked(page)


def _count_progress(
    records: Iterable[LedgerRecord], on_ledger: Callable[[int], None]
) -> Iterator[LedgerRecord]:
    for record in records:
        yield record
        on_ledger(1)
