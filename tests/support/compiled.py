"""Libraries in C that are preloaded into a real process, to stand under its calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def library(source: Path, directory: Path) -> Path:
    """The library of this source, made in this directory; skips the test where that cannot be done."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("standing under a process's calls needs Linux and a C compiler")
    headers = subprocess.run(
        [compiler, "-E", "-include", "unistd.h", "-x", "c", os.devnull], capture_output=True, check=False
    )
    if headers.returncode != 0:
        pytest.skip("the C compiler has no headers of the C library")
    made = directory / source.with_suffix(".so").name
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    return made
