"""Creates Spark sessions that can read ledgers, local ones or on a cluster, to which it ships our packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from .package_shipping import PACKAGES, directory_of, ship


def session_on(
    master: str,
    app_name: str,
    *,
    config: Mapping[str, str] | None = None,
    extra_packages: tuple[str, ...] = (),
) -> SparkSession:
    """Creates a session on `local[*]` or any master, with our data sources registered.

    Executors elsewhere get our packages as a file; their dependencies from PyPI must be installed there.

    Spark starts one and the same Python on the driver, to plan, and on executors, to read: by default this one, by its
    path, or the one named by PYSPARK_PYTHON or the setting `spark.pyspark.python`. So if executors have their Python
    at another path than this host, name one by a path or a command that all hosts have, the driver's included.
    """
    _choose_python(config or {})
    for package in extra_packages:
        directory_of(package)  # raises before anything has started
    # The daemon forks tasks without gRPC's threads; silence gRPC's complaints about that.
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
    """Whether all tasks run on this machine, with nothing to ship."""
    return master == "local" or master.startswith("local[")


def register(session: SparkSession) -> None:
    """Registers `format("ledger")`, `format("log")` and `format("edits")` in a session."""
    from .edits.source import EditsDataSource
    from .logs.source import LogDataSource
    from .source import LedgerDataSource

    for source in (LedgerDataSource, LogDataSource, EditsDataSource):
        session.dataSource.register(source)


def _choose_python(config: Mapping[str, str]) -> None:
    """Sets the workers' Python; Spark's default, the `python3` on PATH, may lack our dependencies."""
    if chosen := config.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = chosen
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
