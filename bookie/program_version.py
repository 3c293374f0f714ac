"""Which version of this program runs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def program_version() -> str:
    try:
        return version("bookledger")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
