"""Creates Spark sessions that can read ledgers, either locally or on a cluster, to which it ships our packages."""

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

    Remote executors get our packages as a file; their dependencies from PyPI must be installed there.

    Spark starts the same Python on the driver, for planning, and on executors, for reading. By default it uses the path
    of this one, or the Python that PYSPARK_PYTHON or the setting `spark.pyspark.python` names. So if executors have
    their Python at another path than this host, name a path or a command that all hosts have, including the driver.
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
    """Whether all tasks run on this machine, so that nothing has to be shipped."""
    return master == "local" or master.startswith("local[")


def register(session: SparkSession) -> None:
    """Registers `format("ledger")`, `format("log")` and `format("edits")` in a session."""
    from .edits.source import EditsDataSource
    from .logs.source import LogDataSource
    from .source import LedgerDataSource

    for source in (LedgerDataSource, LogDataSource, EditsDataSource):
        session.dataSource.register(source)


def _choose_python(config: Mapping[str, str]) -> None:
    """Sets the workers' Python, because Spark's default, the `python3` on PATH, may lack our dependencies."""
    if chosen := config.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = chosen
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
