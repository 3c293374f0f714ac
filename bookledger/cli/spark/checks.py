"""Validates a replay's options before Spark starts, because a JVM takes seconds and reports errors poorly."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledgers.errors import LedgerError, NoSuchLedger

from ..membership.cluster_survey import check_is_cluster
from ..terminal import say
from .prerequisites import check_packages

if TYPE_CHECKING:
    from spark.edits.options import EditsOptions
    from spark.planning.options import LedgerOptions
    from spark.planning.selection import Selection

DEFAULT_FILE_SYSTEM = "spark.hadoop.fs.defaultFS"
HADOOP_DIRECTORIES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""If any of these environment variables is set, a path without a scheme may be on any file system."""

FILE_SYSTEMS = (
    *("file", "har", "hdfs", "swebhdfs", "viewfs", "webhdfs"),
    *(
        "abfs",
        "abfss",
        "adl",
        "alluxio",
        "cosn",
        "dbfs",
        "gs",
        "o3fs",
        "obs",
        "ofs",
        "oss",
        "s3",
        "s3a",
        "s3n",
    ),
    *("wasb", "wasbs"),
)
"""File system schemes of Hadoop, and of jars commonly added to Spark; only Spark knows which ones are present."""

BRINGS_FILE_SYSTEMS = ("spark.jars", "spark.driver.extraClassPath", "spark.hadoop.fs.")
SPARK_DIRECTORIES = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")
"""If any of these settings (by prefix) or environment variables is set, Spark may have file systems unknown to this
program."""

ANOTHER_PLACE = "choose a writable place"

ONLY_WITH = {
    ("--journal",): ("--edits", "--acceptors"),
    ("--log",): ("--first", "--last"),
    ("--log", "--set"): ("--since", "--until"),
}
NOT_WITH = {
    "--journal": ("--ledgers", "--custom", "--recover", "--columns", "--log", "--set"),
    "--log": ("--ledgers", "--custom", "--recover", "--set"),
    "--set": ("--ledgers", "--custom", "--recover"),
}


def check_flags(given: Mapping[str, object]) -> None:
    """Raises UsageError for contradictory options. `given`: the options by name; those that are absent have falsy
    values."""
    for kinds, flags in ONLY_WITH.items():
        if not any(given[kind] for kind in kinds):
            for flag in filter(given.get, flags):
                raise click.UsageError(f"{flag} is only valid with {' or '.join(kinds)}")
    for kind, others in NOT_WITH.items():
        if given[kind]:
            for flag in filter(given.get, others):
                raise click.UsageError(f"{flag} and {kind} read two different things: choose one")


def check_replay(source: str, options: Mapping[str, str], output: str, conf: Mapping[str, str]) -> None:
    """Checks everything that can be known without Spark: the options, their files, the output, the cluster, its
    ledgers.

    Raises UsageError, and errors from reading: LedgerError, MetadataError, ValueError, OSError.
    """
    check_packages()
    check_output(output, conf)
    {"edits": _check_edits, "log": _check_log, "ledger": _check_ledgers}[source](options)


def check_output(output: str, conf: Mapping[str, str]) -> None:
    """Checks that a local directory does not exist and can be created. Raises LedgerError."""
    local = _local(output, conf)
    if local is None:
        _check_file_system(output, conf)
        return
    if os.path.lexists(local):
        raise LedgerError(f"{output} already exists: choose another --output, or remove it")
    above = next(parent for parent in local.parents if os.path.lexists(parent))
    if not above.is_dir():
        raise LedgerError(f"{output} cannot be created, because {above} is not a directory: {ANOTHER_PLACE}")
    if not os.access(above, os.W_OK | os.X_OK):
        raise LedgerError(f"nothing can be written to {above}: {ANOTHER_PLACE}")


def _check_file_system(output: str, conf: Mapping[str, str]) -> None:
    """Refuses a scheme that no known jar provides, unless the settings may add a jar that does."""
    scheme = output.partition("://")[0].lower()
    given = any(name.startswith(BRINGS_FILE_SYSTEMS) for name in conf)
    elsewhere = any(os.environ.get(name) for name in SPARK_DIRECTORIES)
    if "://" in output and scheme not in FILE_SYSTEMS and not given and not elsewhere:
        raise click.UsageError(
            f"--output {output}: no file system is called {scheme}; "
            f"the known ones are {', '.join(FILE_SYSTEMS)}, "
            "and those that --conf spark.jars or spark.jars.packages adds"
        )


def _local(output: str, conf: Mapping[str, str]) -> Path | None:
    scheme, _, place = output.rpartition(":")
    if scheme == "file":
        return Path(f"/{place.lstrip('/')}")
    elsewhere = DEFAULT_FILE_SYSTEM in conf or any(os.environ.get(name) for name in HADOOP_DIRECTORIES)
    return None if scheme or elsewhere else Path(output).absolute()


def _check_ledgers(given: Mapping[str, str]) -> None:
    from spark.planning.options import LedgerOptions
    from spark.planning.selection import BadSelection

    try:
        options = LedgerOptions.of(given).for_batch()
    except BadSelection as error:
        raise click.UsageError(str(error)) from error
    if options.journal is None:
        _check_selected(options, options.selection)
    else:
        _check_journal(options, options.journal)


def _check_edits(given: Mapping[str, str]) -> None:
    from spark.edits.options import EditsOptions
    from spark.planning.selection import BadSelection

    try:
        options = EditsOptions.of(given)
    except BadSelection as error:
        raise click.UsageError(str(error)) from error
    _check_journal(options, options.journal)


def _check_log(given: Mapping[str, str]) -> None:
    """Checks that the log or the set exists, and that the selection includes some of its records."""
    from spark.logs.options import LogOptions
    from spark.logs.segment_parts import parts_of_batch
    from spark.planning.selection import BadSelection

    try:
        options = LogOptions.of(given).for_batch()
    except BadSelection as error:
        raise click.UsageError(str(error)) from error
    access = options.access()
    with access.uri() as uri:
        check_is_cluster(uri)
        if not asyncio.run(parts_of_batch(uri, options, access.password)):
            raise LedgerError(f"{options.chosen} has no selected record: nothing would be read")


def _check_journal(options: LedgerOptions | EditsOptions, journal: str) -> None:
    """Checks that the journal exists and has no gap, and that its segments' ledgers exist."""
    from spark.planning.journal_segments import finalized_segments
    from spark.planning.selection import Selection

    with options.access().uri() as uri:
        check_is_cluster(uri)
        segments = asyncio.run(finalized_segments(uri, journal, options.acceptors))
    if not segments:
        raise LedgerError(f"journal {journal} has no finalized segment yet: nothing would be read")
    try:
        _check_selected(options, Selection().of_ledgers([one.ledger_id for one in segments]))
    except NoSuchLedger as error:
        raise LedgerError(
            f"{error}, but it held a segment of journal {journal}: name all acceptors of the journal, or run "
            "`bookledger journal fsck`"
        ) from error


def _check_selected(options: LedgerOptions | EditsOptions, selection: Selection) -> None:
    """Checks that named ledgers exist, and that all selected ledgers are closed unless they may be recovered."""
    from ledgers import LedgerClient

    from ..config.clients import client_config

    with options.access().uri() as uri:
        check_is_cluster(uri)
        with LedgerClient(uri, config=client_config()) as client:
            if omitted := selection.check(client):
                say(omitted, err=True)
