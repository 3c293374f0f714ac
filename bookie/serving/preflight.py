"""Checks a daemon's environment: clock, etcd, directories, permissions. Errors state the problem and the remedy."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from metadata.errors import StoreTooOld
from metadata.store import MetadataStore

from ..errors import BookieError, DataDirectoryError
from ..log.appender import DISK_FULL

log = logging.getLogger(__name__)

EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)
"""This program was written after this date, so a clock that shows an earlier date was never set."""


def check_clock() -> None:
    """Raises BookieError if the clock was never set. Leases do not depend on the clock, but records and the auditor's
    delays do."""
    now = datetime.fromtimestamp(time.time(), UTC)
    if now < EARLIEST:
        raise BookieError(
            f"this machine's clock shows {now:%Y-%m-%d %H:%M} UTC, which cannot be right: set it "
            "(`timedatectl set-ntp true`, or `date -s`), and start again"
        )


async def check_keeps_writes(store: MetadataStore, *, accept_unsafe: bool) -> None:
    """Raises StoreTooOld if etcd may lose confirmed writes; with `accept_unsafe`, only logs a warning. An etcd that
    lacks a required feature is always refused."""
    doubt = (await store.health()).doubt
    if not doubt:
        return
    if not accept_unsafe:
        raise StoreTooOld(f"{doubt}, or accept that with --accept-unsafe-etcd")
    log.warning("%s", doubt)


def check_is_directory(path: Path) -> None:
    """Raises DataDirectoryError unless the path is a directory that this user can access."""
    try:
        os.stat(path)
    except FileNotFoundError:
        raise DataDirectoryError(f"{path} does not exist; {_how_to_format(path)}") from None
    except PermissionError:
        raise DataDirectoryError(
            f"{path} cannot be reached: a directory above it does not give user {os.geteuid()} access "
            f"(`namei -l {path}` shows which)"
        ) from None
    except OSError as error:
        raise DataDirectoryError(f"{path} cannot be used: {error.strerror}") from None
    if not path.is_dir():
        raise DataDirectoryError(f"{path} is a file, not a directory; {_how_to_format(path)}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise DataDirectoryError(f"{path} cannot be read; {_who_needs(path)}")


def check_is_writable(*paths: Path) -> None:
    """Raises DataDirectoryError for the first path that exists and is not writable by this user."""
    for path in paths:
        if path.exists() and not _may_write(path):
            raise DataDirectoryError(f"{path} is not writable; {_read_only(path) or _who_needs(path)}")


@contextmanager
def disk_is_not_full(path: Path) -> Iterator[None]:
    """Raises DataDirectoryError if the disk turns out to be full inside the block."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise DataDirectoryError(f"{path}: {error.strerror}; free some space on that disk") from error


def make_directory(path: Path) -> None:
    """Creates a directory and its parents if it does not exist.

    Raises DataDirectoryError if the directory cannot be created or written to, or OSError if the disk is full.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise
        raise DataDirectoryError(f"{path} cannot be created: {_why_not_made(path, error)}") from None
    if not _may_write(path):
        raise DataDirectoryError(f"{path} is not writable; {_read_only(path) or _how_to_own(path)}")


def not_formatted(path: Path) -> DataDirectoryError:
    """Returns the error for a directory without a bookie."""
    return DataDirectoryError(f"{path} is not a formatted bookie directory; {_how_to_format(path)}")


def _how_to_format(path: Path) -> str:
    return f"run: bookledger bookie format --data {path} --id NAME --metadata URI"


def _why_not_made(path: Path, error: OSError) -> str:
    """Returns advice for a directory that cannot be created: its parents belong to another user, so the machine's
    administrator must create it and assign it to the bookie's user."""
    if not isinstance(error, PermissionError):
        return error.strerror or str(error)
    return f"{error.filename2 or error.filename}: {error.strerror}; {_how_to_own(path)}"


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0))


def _read_only(path: Path) -> str:
    """Returns advice for a file system that is mounted read-only; "" if it is writable."""
    is_mounted_so = os.statvfs(path).f_flag & os.ST_RDONLY
    return "its file system is mounted read-only: mount it for writing" if is_mounted_so else ""


def _how_to_own(path: Path) -> str:
    """Returns advice for a directory that contains none of the bookie's files yet. Following the advice does not
    change the owner of anything in the directory."""
    return f"as root: install -d -o {os.geteuid()} {path}"


def _who_needs(path: Path) -> str:
    """Returns advice on access to a bookie's files, including how to change the owner of files that another user, such
    as root, has created."""
    return f"the bookie runs as user {os.geteuid()}: chown -R {os.geteuid()} {path}, or run it as the owner"
