"""Spark sessions that can read ledgers: on this machine, or on a cluster that gets our packages shipped."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

PACKAGES = ("metadata", "bookie", "ledgers", "qjm_compat", "spark")

SHIPPED_SUFFIXES = frozenset({".py", ".typed"})


def session_on(
    master: str,
    app_name: str,
    *,
    config: Mapping[str, str] | None = None,
    extra_packages: tuple[str, ...] = (),
) -> SparkSession:
    """A session on `local[*]` or any master, with our data sources registered.

    Executors elsewhere get our packages as a file; what these need from PyPI must be installed there.
    """
    if master.startswith("local"):
        # Spark takes the `python3` it finds on PATH otherwise, which need not have what we run with.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The daemon that starts tasks would hand gRPC's threads on to none of them; silence what gRPC says of that.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if not master.startswith("local[") and master != "local":
        session.sparkContext.addPyFile(str(packages_file(PACKAGES + extra_packages)))
    register(session)
    return session


def register(session: SparkSession) -> None:
    """Makes `format("ledger")` and `format("edits")` known to a session."""
    from .edits_source import EditsDataSource
    from .source import LedgerDataSource

    session.dataSource.register(LedgerDataSource)
    session.dataSource.register(EditsDataSource)


def packages_file(packages: tuple[str, ...]) -> Path:
    """Packages as they are installed here, in one zip file that Python can import from; it goes with this process."""
    directory = tempfile.mkdtemp(prefix="bookledger-packages-")
    atexit.register(shutil.rmtree, directory)  # executors fetch it from here for as long as the session lives
    path = Path(directory) / "bookledger.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in packages:
            root = _directory_of(package)
            for file in sorted(root.rglob("*")):
                if file.suffix in SHIPPED_SUFFIXES:
                    archive.write(file, Path(package) / file.relative_to(root))
    return path


def _directory_of(package: str) -> Path:
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ValueError(f"the package {package} is not installed here: run from a checkout")
    return Path(next(iter(found.submodule_search_locations)))
