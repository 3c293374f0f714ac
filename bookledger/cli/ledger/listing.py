"""`bookledger ledger list`: lists ledgers by filters, a page at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice

import click

from bookledger.cluster.custom_wanted import CustomWanted
from ledgers import LedgerClient
from metadata.records.ledger_record import LedgerRecord, LedgerState

from ..config.clients import client_config
from ..membership.cluster_survey import check_is_cluster, looking_at_ledgers
from ..options import Finite, Moment, json_option, metadata_option
from ..output import ledger_fields, print_json, print_records
from ..terminal import say
from ..told.help import command
from ..told.interruption import again, told_when_stopped


@command(
    "list",
    headings={
        "Only some ledgers": ("--state", "--older-than", "--since", "--until", "--bookie", "--custom"),
        "A page at a time": ("--first", "--limit"),
    },
)
@metadata_option
@click.option(
    "--state", type=click.Choice([state.value for state in LedgerState]), help="Only ledgers in this state."
)
@click.option("--older-than", metavar="SECONDS", type=Finite(0), help="Only ledgers made so long ago.")
@click.option(
    "--since",
    type=Moment(),
    help="Only ledgers that may have entries from this time on, by what their records know.",
)
@click.option("--until", type=Moment(), help="Only ledgers that may have entries from before this time.")
@click.option(
    "--bookie", "bookie_id", metavar="NAME", help="Only ledgers of which this bookie holds something."
)
@click.option(
    "--custom",
    metavar="KEY[=VALUE]",
    multiple=True,
    help="Only ledgers with this custom metadata, all of it.",
)
@click.option("--first", "first_ledger", type=click.IntRange(0), default=0, help="Begin with this id.")
@click.option("--limit", type=click.IntRange(1), help="Print so many at most, and how to go on.")
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
    as_json: bool,
) -> None:
    """Show every ledger, or those that are asked for, by id.

    Examples:
        bookledger ledger list --state open --older-than 86400
        bookledger ledger list --custom owner=team-a --limit 100
    """
    customs = [CustomWanted.of(one) for one in custom]
    made_before_ms = None if older_than is None else int((time.time() - older_than) * 1000)

    def is_wanted(record: LedgerRecord) -> bool:
        return (
            state in (None, record.state.value)
            and (made_before_ms is None or record.created_ms <= made_before_ms)
            and record.may_hold(since, until)
            and (bookie_id is None or _names(record, bookie_id))
            and all(one.is_of(record) for one in customs)
        )

    shown = _Shown()
    with (
        told_when_stopped(shown.how),
        LedgerClient(metadata_uri, config=client_config()) as client,
        looking_at_ledgers(prints=as_json) as advance,
    ):
        wanted = filter(is_wanted, _told(client.list_ledgers(first_ledger=first_ledger), advance))
        if as_json:
            shown.lines(islice(wanted, limit))
        records = [] if as_json else list(islice(wanted, None if limit is None else limit + 1))
    if not records and shown.last_ledger is None:
        check_is_cluster(metadata_uri)
    if not as_json:
        _print(records, limit)


def _print(records: list[LedgerRecord], limit: int | None) -> None:
    rows = [ledger_fields(record) for record in records[:limit]]
    print_records(rows, as_json=False, none="there are no such ledgers")
    if limit is not None and len(records) > limit:
        say(f"more follow: --first {records[-1].ledger_id}")


class _Shown:
    """The ledgers that are printed while others are looked at: a table needs the widths of all."""

    def __init__(self) -> None:
        self.last_ledger: int | None = None

    def lines(self, records: Iterable[LedgerRecord]) -> None:
        for record in records:
            print_json(ledger_fields(record))
            self.last_ledger = record.ledger_id

    def how(self) -> str:
        if self.last_ledger is None:
            return f"no ledger is printed for certain; {again(so='begin again')}"
        return f"the ledgers to {self.last_ledger} are printed, perhaps more; go on with --first {self.last_ledger + 1}"


def _told(records: Iterable[LedgerRecord], on_ledger: Callable[[int], None]) -> Iterator[LedgerRecord]:
    for record in records:
        yield record
        on_ledger(1)


def _names(record: LedgerRecord, bookie_id: str) -> bool:
    return any(bookie.bookie_id == bookie_id for fragment in record.fragments for bookie in fragment.ensemble)
