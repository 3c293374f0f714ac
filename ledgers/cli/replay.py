"""`bookledger replay`: closed ledgers, or a journal's edits, to Parquet, on Spark."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from ledgers import errors
from ledgers.errors import LedgerError

from .options import json_option, metadata_option
from .output import print_record

HOW_TO_INSTALL = "this needs Spark: pip install 'bookledger[spark]', and Java 17"

OURS = frozenset({name for name, kind in vars(errors).items() if isinstance(kind, type)} | {"BadSelection"})
"""Names of errors that say in one line what is wrong with ledgers or options."""


@click.command()
@metadata_option
@click.option("--ledgers", metavar="IDS", help="Such as 7,9,20-30 or 7:100-200 for entries; default: all.")
@click.option("--journal", metavar="ID", help="The finalized segments of a journal instead.")
@click.option("--edits", is_flag=True, help="With --journal: one row for each edit, decoded.")
@click.option("--acceptors", metavar="NAMES", help="Of a journal with several: a,b,c.")
@click.option("--custom", metavar="KEY=VALUE", multiple=True, help="Only ledgers with this custom metadata.")
@click.option("--recover", is_flag=True, help="Fence and close ledgers that are open.")
@click.option(
    "--columns", metavar="NAMES", help="Of ledgers: which columns; default: ledger_id,entry_id,payload."
)
@click.option("--password-file", type=click.Path(exists=True, dir_okay=False), help="The ledgers' password.")
@click.option("--partition-bytes", type=click.IntRange(1), help="Payload of one task.  [default: 64 MiB]")
@click.option("--master", default="local[*]", show_default=True, help="Any Spark master.")
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark's.")
@click.option(
    "--output",
    required=True,
    metavar="DIR",
    help="Where the Parquet files go: a new directory, any file system.",
)
@json_option
def replay(
    metadata_uri: str,
    ledgers: str | None,
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
    """Replay closed ledgers to Parquet; every digest is verified, nothing is skipped."""
    if edits and journal is None:
        raise click.UsageError("--edits goes with --journal")
    given: dict[str, str | None] = {
        "metadata": metadata_uri,
        "ledgers": ledgers,
        "journal": journal,
        "acceptors": acceptors,
        "columns": columns,
        "recover": "true" if recover else None,
        "password_file": password_file,
        "partition_bytes": None if partition_bytes is None else str(partition_bytes),
    }
    options = {name: value for name, value in given.items() if value is not None}
    options |= {f"custom.{name}": value for name, value in pairs(custom, "--custom").items()}
    fields = _run(
        "edits" if edits else "ledger", options, master, pairs(conf, "--conf"), output, as_json=as_json
    )
    print_record(fields, as_json=as_json)


def _run(
    source: str, options: dict[str, str], master: str, conf: dict[str, str], output: str, *, as_json: bool
) -> dict[str, object]:
    try:
        from pyspark.errors import PySparkException
    except ImportError:
        raise LedgerError(HOW_TO_INSTALL) from None

    from spark.replay import replay as run
    from spark.session import session_on

    session = session_on(master, "bookledger replay", config=quiet_config(master) | conf)
    try:
        session.sparkContext.setLogLevel("OFF")
        with tasks_bar(quiet=as_json) as progress:
            done = run(session, source, options, output, progress)
    except PySparkException as error:
        raise in_one_line(error) from error
    finally:
        session.stop()
    return {
        "output": output,
        "rows": done.rows,
        "bytes": done.payload_bytes,
        "seconds": round(done.seconds, 3),
        "mb_per_s": round(done.payload_bytes / done.seconds / 1e6, 1),
    }


def quiet_config(master: str) -> dict[str, str]:
    """On this machine nobody needs Spark's web pages, nor its progress bar beside ours."""
    return {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"} if _is_local(master) else {}


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """`KEY=VALUE` several times. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise click.UsageError(f"{option} {text!r} is not KEY=VALUE")
        found[name] = value
    return found


@contextmanager
def tasks_bar(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar of tasks done, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("tasks", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


_PYTHON_ERROR = re.compile(r"^(?:pyspark\.errors\.[\w.]+: )?(?:[\w.]+\.)?(\w+): (.+)$")


def in_one_line(error: Exception) -> LedgerError:
    """What a task or Spark itself said, without the stacks of two languages around it."""
    said = [match for match in map(_PYTHON_ERROR.match, str(error).splitlines()) if match]
    ours = [match for match in said if match[1] in OURS]
    chosen = (ours or said)[-1:]
    lines = [f"{match[1]}: {match[2]}" for match in chosen] or str(error).splitlines()
    return LedgerError(lines[0] if lines else type(error).__name__)
