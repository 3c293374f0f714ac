"""Checks Spark's prerequisites on this machine before it starts: Python packages and Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from ledgers.errors import LedgerError

PYTHON_PACKAGES = ("pyspark", "pyarrow", "pandas")
HOW_TO_INSTALL = "pip install 'bookledger[spark]', or pip install '.[spark]' in a checkout"

JAVA_VERSION_MIN = 17
HOW_TO_GET_JAVA = f"install a JDK {JAVA_VERSION_MIN} or later, and put its java on PATH or set JAVA_HOME"
JAVA_SECONDS_MAX = 20


def check_spark_can_start() -> None:
    """Raises LedgerError, with installation advice, if something is missing."""
    check_packages()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # under spark-submit, Java is already running
        _check_java()


def check_packages() -> None:
    """Checks the Python packages. Raises LedgerError."""
    missing = [package for package in PYTHON_PACKAGES if find_spec(package) is None]
    if missing:
        raise LedgerError(f"Spark needs {' and '.join(missing)}, not installed here: {HOW_TO_INSTALL}")


def _check_java() -> None:
    java = _java()
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, check=False, timeout=JAVA_SECONDS_MAX
        ).stderr.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LedgerError(
            f"Spark needs Java, but {java} cannot be run ({error}): {HOW_TO_GET_JAVA}"
        ) from error
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None:
        raise LedgerError(
            f"Spark needs Java, but {java} does not print its version ({said.strip()}): {HOW_TO_GET_JAVA}"
        )
    if int(version[1]) < JAVA_VERSION_MIN:
        raise LedgerError(
            f"Spark needs Java {JAVA_VERSION_MIN}, but {java} is {version[1]}: {HOW_TO_GET_JAVA}"
        )


def _java() -> str:
    """Returns the Java that Spark's own scripts would use."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise LedgerError(f"JAVA_HOME is {home}, which has no bin/java: {HOW_TO_GET_JAVA}")
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise LedgerError(f"Spark needs Java, which was not found: {HOW_TO_GET_JAVA}")
    return found
