"""The version of the running program, and of its Python."""

from __future__ import annotations

import platform
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version


def program_version() -> str:
    try:
        return version("bookledger")
    except PackageNotFoundError:  # the program runs from a checkout that is not installed
        return "unknown"


def interpreter() -> str:
    """Describes the Python that runs this process, including whether it was built with optimizations, which change the
    processor time of an append by a quarter."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    is_optimized = (
        "--enable-optimizations" in arguments or sys.base_prefix == "/usr"
    )  # the distribution's own Python
    build = "optimized" if is_optimized else "built without optimizations"
    return f"{platform.python_implementation()} {platform.python_version()}, {build}"
