"""Creates Spark sessions that can read ledgers, either locally or on a cluster, to which our packages are shipped."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

PACKAGES = ("metadata", "bookie", "ledgers", "qjm_compat", "spark", "bookledger")

SHIPPED_SUFFIXES = frozenset({".py", ".typed"})
SHIPPED_NAME = "bookledger.zip"


def ship(context: SparkContext, packages: tuple[str, ...]) -> None:
    """Makes executors import these packages from a file, including executors that start later.

    Executors fetch the file from the driver. The driver keeps it with the session's files, so the file is deleted with
    the session, even if this process is killed. The driver itself continues to import its installed packages.
    """
    root = Path(SparkFiles.getRootDirectory())
    place = root / "shipped"
    place.mkdir(exist_ok=True)
    context.addPyFile(str(packages_file(packages, place)))
    # Spark has put its copy of the packages ahead of the installed ones on the path. It deletes the copy when the
    # session stops, after which imports would look in a deleted file.
    copy = str(root / SHIPPED_NAME)
    sys.path[:] = [entry for entry in sys.path if entry != copy]
    sys.path_importer_cache.pop(copy, None)


def packages_file(packages: tuple[str, ...], directory: Path) -> Path:
    """Writes installed packages to one zip file that Python can import.

    Raises ValueError if a package is not installed here.
    """
    path = directory / SHIPPED_NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in packages:
            root = directory_of(package)
            for file in sorted(root.rglob("*")):
                if file.suffix in SHIPPED_SUFFIXES:
                    archive.write(file, Path(package) / file.relative_to(root))
    return path


def directory_of(package: str) -> Path:
    """Returns the directory of an installed package. Raises ValueError if the package is not installed."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ValueError(f"the package {package} is not installed here: run this from a checkout")
    return Path(next(iter(found.submodule_search_locations)))


def session_on(
    master: str,
    app_name: str,
    *,
    config: Mapping[str, str] | None = None,
    extra_packages: tuple[str, ...] = (),
) -> SparkSession:
    """Creates a session on `local[*]` or any master, with our data sources registered.

    Remote executors get our packages as a file; the dependencies of these packages must be installed there from PyPI.

    Spark starts the same Python on the driver, for planning, and on executors, for reading. By default it uses the path
    of the Python that runs this process; PYSPARK_PYTHON or the setting `spark.pyspark.python` overrides this. So if
    executors have Python at a different path than this host, name a path or a command that exists on all hosts,
    including the driver.
    """
    _choose_python(config or {})
    for package in extra_packages:
        directory_of(package)  # raises an error before anything is started
    # Spark's daemon forks task processes, which lack gRPC's threads; silence gRPC's warnings about that.
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
    """Returns whether all tasks run on this machine, so that nothing has to be shipped."""
    return master == "local" or master.startswith("local[")


def register(session: SparkSession) -> None:
    """Registers `format("ledger")`, `format("log")` and `format("edits")` in a session."""
    from .edits.source import EditsDataSource
    from .logs.source import LogDataSource
    from .source import LedgerDataSource

    for source in (LedgerDataSource, LogDataSource, EditsDataSource):
        session.dataSource.register(source)


def _choose_python(config: Mapping[str, str]) -> None:
    """Sets the Python of the workers, because Spark's default, the `python3` on PATH, may lack our dependencies."""
    if chosen := config.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = chosen
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
