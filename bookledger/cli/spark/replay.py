"""`bookledger replay`: copies closed ledgers, logs or a journal's edits to Parquet, on Spark."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from ..messages.help import command
from ..options import Moment, json_option, metadata_option
from ..output import print_record
from .checks import check_flags, check_replay
from .options import master_given, pairs, settings, tasks_bar
from .output import NewOutput
from .spark_job import OnSpark, run_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.parquet_replay import ReplayResult


def _place_given(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("name a new directory")
    return value


@command(
    headings={
        "Ledgers": ("--ledgers", "--custom", "--recover"),
        "Logs": ("--log", "--set", "--first", "--last", "--since", "--until"),
        "Journals": ("--journal", "--edits", "--acceptors"),
        "Output": ("--output", "--columns"),
        "Spark": ("--master", "--conf", "--partition-bytes"),
    }
)
@metadata_option
@click.option(
    "--ledgers",
    metavar="IDS",
    help="Ledgers, such as 7,9,20-30 or 7:100-200  [default: all that belong to no log]",
)
@click.option("--log", metavar="NAME", help="Replay the records of a log instead.")
@click.option("--set", "log_set", metavar="NAME", help="Replay the records of all logs of a set instead.")
@click.option("--first", type=click.IntRange(0), help="With --log: first position.")
@click.option("--last", type=click.IntRange(0), help="With --log: last position.")
@click.option(
    "--since", type=Moment(), help="With --log or --set: only records appended at this time or later."
)
@click.option("--until", type=Moment(), help="With --log or --set: only records appended before this time.")
@click.option("--journal", metavar="ID", help="Replay the finalized segments of a journal instead.")
@click.option("--edits", is_flag=True, help="With --journal: one row for each edit, decoded.")
@click.option(
    "--acceptors", metavar="NAMES", help="Acceptors of the journal, if it has several, such as a,b,c."
)
@click.option("--custom", metavar="KEY=VALUE", multiple=True, help="Only ledgers with this custom metadata.")
@click.option("--recover", is_flag=True, help="Fence, recover and close open ledgers first.")
@click.option(
    "--columns",
    metavar="NAMES",
    help="Columns of entries or records  [default: ledger_id,entry_id,payload of entries, all of records]",
)
@click.option("--password-file", type=click.Path(exists=True, dir_okay=False), help="The ledgers' password.")
@click.option(
    "--partition-bytes", type=click.IntRange(1), help="Bytes of payload per task  [default: 64 MiB]"
)
@click.option("--master", default="local[*]", show_default=True, callback=master_given, help="Spark master.")
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="Spark setting; may be given several times.")
@click.option(
    "--output",
    required=True,
    metavar="DIR",
    callback=_place_given,
    help="New directory for the Parquet files, on any file system.",
)
@json_option
def replay(
    metadata_uri: str,
    ledgers: str | None,
    log: str | None,
    log_set: str | None,
    first: int | None,
    last: int | None,
    since: datetime | None,
    until: datetime | None,
    journal: str | None,
    edits: bool,
    acceptors: str | None,
    custom: tuple[str, ...],
    recover: bool,
    columns: str | None,
    password_file: str | None,
    partition_bytes: int | None,
    master: str,
    conf: tuple[str, ...],
    output: str,
    as_json: bool,
) -> None:
    """Replay closed ledgers, logs or a journal to Parquet; every digest is verified, and no entry is skipped.

    Examples:
        bookledger replay --ledgers 7,9,20-30 --output /srv/entries.parquet
        bookledger replay --custom owner=team-a --output /srv/team-a.parquet
        bookledger replay --log orders --since 2026-11-28 --output /srv/orders.parquet
        bookledger replay --journal ns1 --edits --output /srv/edits.parquet
    """
    check_flags(
        {
            "--ledgers": ledgers is not None,
            "--custom": custom,
            "--recover": recover,
            "--columns": columns is not None,
            "--log": log is not None,
            "--set": log_set is not None,
            "--first": first is not None,
            "--last": last is not None,
            "--since": since,
            "--until": until,
            "--journal": journal is not None,
            "--edits": edits,
            "--acceptors": acceptors is not None,
        }
    )
    given: dict[str, str | None] = {
        "metadata": metadata_uri,
        "ledgers": ledgers,
        "log": log,
        "set": log_set,
        "startingPosition": None if first is None else str(first),
        "endingPosition": None if last is None else str(last + 1),
        "startingTime": None if since is None else since.isoformat(),
        "endingTime": None if until is None else until.isoformat(),
        "journal": journal,
        "acceptors": acceptors,
        "columns": columns,
        "recover": "true" if recover else None,
        "password_file": password_file,
        "partition_bytes": None if partition_bytes is None else str(partition_bytes),
    }
    options = {name: value for name, value in given.items() if value is not None}
    options |= {f"custom.{name}": value for name, value in pairs(custom, "--custom").items()}
    where = OnSpark(master, "bookledger replay", settings(conf))
    source = "edits" if edits else "log" if log is not None or log_set is not None else "ledger"
    check_replay(source, options, output, where.config)
    done = _run(where, source, options, output)
    fields = {
        "output": output,
        "rows": done.rows,
        "bytes": done.payload_bytes,
        "seconds": round(done.seconds, 3),
        "mb_per_s": round(done.payload_bytes / done.seconds / 1e6, 1),
    }
    print_record(fields, as_json=as_json)


def _run(where: OnSpark, source: str, options: dict[str, str], output: str) -> ReplayResult:
    new = NewOutput(output)

    def work(session: SparkSession) -> ReplayResult:
        from spark.parquet_replay import replay as run

        done = run(session, source, options, new.claim(session), progress)
        new.complete()
        return done

    with new.tidied_up(), tasks_bar() as progress:
        return run_on_spark(where, work)
