"""Ships our packages to executors as one zip file, for the lifetime of a session."""

from __future__ import annotations

import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

from pyspark import SparkContext, SparkFiles

PACKAGES = ("metadata", "bookie", "ledgers", "qjm_compat", "spark", "bookledger")

SHIPPED_SUFFIXES = frozenset({".py", ".typed"})
SHIPPED_NAME = "bookledger.zip"


def ship(context: SparkContext, packages: tuple[str, ...]) -> None:
    """Makes executors import these packages from a file, including executors that start later.

    They fetch it from the driver, which keeps it with the session's files. So it is deleted with the session, even if
    this process is killed. The driver itself continues to import its installed packages.
    """
    root = Path(SparkFiles.getRootDirectory())
    place = root / "shipped"
    place.mkdir(exist_ok=True)
    context.addPyFile(str(packages_file(packages, place)))
    # Spark has put its copy before the installed packages on the path. It deletes the copy when the session stops, and
    # later imports would be searched in a deleted file.
    copy = str(root / SHIPPED_NAME)
    sys.path[:] = [entry for entry in sys.path if entry != copy]
    sys.path_importer_cache.pop(copy, None)


def packages_file(packages: tuple[str, ...], directory: Path) -> Path:
    """Writes installed packages to one zip file from which Python can import.

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
    """The directory of an installed package. Raises ValueError if the package is not installed."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ValueError(f"the package {package} is not installed here: run this from a checkout")
    return Path(next(iter(found.submodule_search_locations)))
