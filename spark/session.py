"""Spark sessions that can read ledgers: on this machine, or on a cluster that gets our packages shipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from .shipping import PACKAGES, directory_of, ship


def session_on(
    master: str,
    app_name: str,
    *,
    config: Mapping[str, str] | None = None,
    extra_packages: tuple[str, ...] = (),
) -> SparkSession:
    """A session on `local[*]` or any master, with our data sources registered.

    Executors elsewhere get our packages as a file; what these need from PyPI must be installed there.

    Spark starts one and the same Python on the driver, to plan, and on executors, to read. It is this one, by its path,
    unless PYSPARK_PYTHON or the setting `spark.pyspark.python` names another. So where executors have their Python
    at another path than this host, name one by a path or a command that all hosts have, the driver's included.
    """
    _choose_python(config or {})
    for package in extra_packages:
        directory_of(package)  # told before anything has started
    # The daemon that starts tasks would hand gRPC's threads on to none of them; silence what gRPC says of that.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if not is_local(master):
        ship(session.sparkContext, PACKAGES + extra_packages)
    register(session)
    return session


def is_local(master: str) -> bool:
    """Whether all tasks run in this machine's own session, with nothing to ship."""
    return master == "local" or master.startswith("local[")


def register(session: SparkSession) -> None:
    """Makes `format("ledger")` and `format("edits")` known to a session."""
    from .edits.source import EditsDataSource
    from .source import LedgerDataSource

    session.dataSource.register(LedgerDataSource)
    session.dataSource.register(EditsDataSource)


def _choose_python(config: Mapping[str, str]) -> None:
    """Else Spark takes the `python3` it finds on PATH, which need not have what we run with."""
    if chosen := config.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = chosen
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
