"""A bookie's data directory: formatted once, locked while in use, matched with the metadata at every start.

    cookie.json   cluster id, bookie id, incarnation, format version; locked (flock) by the running bookie
    log/          segment files
    index/        LMDB

The cookie stands here and in the metadata under `cookies/<bookie id>`; both must agree (rule W7).
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from dataclasses import asdict
from pathlib import Path

from metadata import cluster, keys, settle
from metadata.cluster import Cookie
from metadata.errors import KeyExists
from metadata.store import MetadataStore

from .disk import OsDisk, sync_directory
from .errors import DataDirectoryError
from .log import segments

FORMAT_VERSION = 1
COOKIE = "cookie.json"
UNFINISHED = COOKIE + ".new"
LOG = "log"
INDEX = "index"


class LockedDirectory:
    """A data directory this process holds the lock of; the lock ends with `close` or the process."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    @property
    def log(self) -> Path:
        return self.path / LOG

    @property
    def index(self) -> Path:
        return self.path / INDEX

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def lock(path: Path) -> LockedDirectory:
    """Takes the directory's lock. Raises DataDirectoryError where it is unformatted or in use."""
    if not (path / COOKIE).is_file():
        raise DataDirectoryError(
            f"{path} is not a formatted bookie directory; run: bookledger bookie format --data {path} --id NAME "
            "--metadata URI"
        )
    # The cookie itself is locked: a lock file of its own could be deleted, and a second process let in.
    fd = os.open(path / COOKIE, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise DataDirectoryError(f"{path} is in use by another bookie process; stop it first") from None
    return LockedDirectory(path, fd)


def read_cookie(path: Path) -> Cookie:
    """The cookie of a formatted directory. Raises DataDirectoryError."""
    try:
        fields = json.loads((path / COOKIE).read_text())
        version = fields.pop("format_version")
        if version == FORMAT_VERSION:
            return Cookie(**fields)
    except FileNotFoundError:
        raise DataDirectoryError(
            f"{path} is not a formatted bookie directory; run: bookledger bookie format"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataDirectoryError(
            f"{path / COOKIE} cannot be read ({error}); the directory is damaged"
        ) from error
    raise DataDirectoryError(f"{path} has format version {version}; this program knows {FORMAT_VERSION}")


async def format_directory(path: Path, bookie_id: str, store: MetadataStore) -> Cookie:
    """Makes an empty directory into a bookie's, with a new incarnation, and registers its cookie.

    Raises DataDirectoryError, and changes nothing, where the directory holds anything or the name
    is taken. A format that a crash interrupted is finished by formatting again:

    1. The identity is written to `cookie.json.new`. Nothing else knows it yet.
    2. The cookie goes into the metadata. From here on the name belongs to this directory.
    3. Log and index are made, and `cookie.json.new` becomes `cookie.json`.
    """
    keys.check_name(bookie_id)
    begun = _interrupted_format(path)
    known = await cluster.read_cookie(store, bookie_id)
    if known is not None and known != begun:
        raise DataDirectoryError(
            f"the name {bookie_id} belongs to a bookie formatted before; choose another name"
        )
    cluster_id = await cluster.cluster_id(store, create=True)
    assert cluster_id is not None
    if begun is not None and (begun.bookie_id, begun.cluster_id) != (bookie_id, cluster_id):
        raise DataDirectoryError(
            f"{path} holds an interrupted format of bookie {begun.bookie_id}; finish that one, or empty the directory"
        )
    cookie = begun or Cookie(cluster_id, bookie_id, str(uuid.uuid4()))
    path.mkdir(parents=True, exist_ok=True)
    _write_unfinished(path, cookie)
    try:
        await settle.create(store, keys.cookie(bookie_id), cookie.encode())
    except KeyExists:
        if await cluster.read_cookie(store, bookie_id) != cookie:
            raise DataDirectoryError(f"the name {bookie_id} was just taken by another bookie") from None
    _finish(path, cookie)
    return cookie


def _interrupted_format(path: Path) -> Cookie | None:
    """The identity an interrupted format left; None for an empty or missing directory.

    Raises DataDirectoryError where the directory holds anything else.
    """
    names = set(os.listdir(path)) if path.is_dir() else set()
    interrupted = UNFINISHED in names and names <= {UNFINISHED, LOG, INDEX}
    if path.exists() and not (path.is_dir() and (interrupted or not names)):
        raise DataDirectoryError(
            f"{path} is not an empty directory; a bookie is formatted on an empty one only"
        )
    if not interrupted:
        return None
    try:
        fields = json.loads((path / UNFINISHED).read_text())
        fields.pop("format_version")
        return Cookie(**fields)
    except (ValueError, TypeError, KeyError):
        return None  # the crash came while it was written: nobody knows that identity


def _write_unfinished(path: Path, cookie: Cookie) -> None:
    with open(path / UNFINISHED, "w") as file:
        json.dump({"format_version": FORMAT_VERSION, **asdict(cookie)}, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path)
    sync_directory(path.parent)


def _finish(path: Path, cookie: Cookie) -> None:
    (path / LOG).mkdir(exist_ok=True)
    (path / INDEX).mkdir(exist_ok=True)
    # From now on there is always a segment: a log without any has lost what was in it.
    segments.resume_or_begin(OsDisk(path / LOG), 0, cookie.incarnation).close()
    # The cookie comes last: a directory without it is not formatted, whatever else it holds.
    os.rename(path / UNFINISHED, path / COOKIE)
    sync_directory(path)


def check_parts(path: Path) -> None:
    """Raises DataDirectoryError where log or index directory is gone, or the log has lost all its segments.

    A bookie that has lost its log must not come up empty and say "no such entry" (rule R6).
    """
    for part in (path / LOG, path / INDEX):
        if not part.is_dir():
            raise DataDirectoryError(
                f"{part} is missing from a formatted bookie directory; put it back, or give this bookie up and "
                "format a new one on an empty directory"
            )
    if not segments.numbers(OsDisk(path / LOG)):
        raise DataDirectoryError(
            f"{path / LOG} holds no segment: what this bookie stored is lost. Put the files back, or give this bookie "
            "up and format a new one on an empty directory"
        )


async def check_cookie(path: Path, store: MetadataStore) -> Cookie:
    """The directory's cookie, if the metadata knows the same. Raises DataDirectoryError."""
    cookie = read_cookie(path)
    known = await cluster.read_cookie(store, cookie.bookie_id)
    if await cluster.cluster_id(store) != cookie.cluster_id or known is None:
        raise DataDirectoryError(
            f"{path} belongs to bookie {cookie.bookie_id} of another cluster ({cookie.cluster_id}); check --metadata"
        )
    if known.incarnation != cookie.incarnation:
        raise DataDirectoryError(
            f"{path} holds incarnation {cookie.incarnation} of bookie {cookie.bookie_id}; the cluster knows "
            f"incarnation {known.incarnation}. This is an old or foreign disk; do not use it under this name"
        )
    return cookie
