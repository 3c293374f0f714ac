"""Our packages as one file that executors import from, for as long as a session lives."""

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
    """Executors import these packages from a file, also executors that start later.

    They fetch it from the driver, which keeps it where Spark keeps the files of a session: so it goes with the
    session, also when this process is killed. The driver itself goes on importing what is installed here.
    """
    root = Path(SparkFiles.getRootDirectory())
    place = root / "shipped"
    place.mkdir(exist_ok=True)
    context.addPyFile(str(packages_file(packages, place)))
    # Spark has put its copy before what is installed here; it deletes the copy when the session stops, and whatever
    # is imported after that would be looked for in a file that is gone.
    copy = str(root / SHIPPED_NAME)
    sys.path[:] = [entry for entry in sys.path if entry != copy]
    sys.path_importer_cache.pop(copy, None)


def packages_file(packages: tuple[str, ...], directory: Path) -> Path:
    """Packages as they are installed here, in one zip file there that Python can import from.

    Raises ValueError for a package that is not installed here.
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
    """Where it is installed. Raises ValueError for one that is not."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ValueError(f"the package {package} is not installed here: run this from a checkout")
    return Path(next(iter(found.submodule_search_locations)))
