"""Formats, locks and checks a bookie's data directory; the metadata must have the same cookie at every start.

    cookie.json   cluster id, bookie id, incarnation, format version; locked (flock) by the running bookie
    log/          segment files
    index/        LMDB

The cookie is stored both in this directory and in the metadata, under `cookies/<bookie id>`; both must agree (rule W7):
`cookie_check.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import json
import logging
import os
import uuid
from pathlib import Path
from typing import Any

from metadata import keys, settled_writes
from metadata.backup import hold
from metadata.backup.no_cluster import why_no_cluster
from metadata.errors import KeyExists, StoreRefused, VersionConflict
from metadata.healing import operator_requests
from metadata.healing.operator_requests import OrderKind
from metadata.records import cluster, decommissioned_bookies
from metadata.records.cluster import PREDECESSORS_MAX, Cookie
from metadata.store import MetadataStore, Versioned

from ..disk.disk import OsDisk, sync_directory
from ..errors import DataDirectoryError, NewerFormat
from ..log import segment_files
from .history import directory_generation
from .preflight import (
    check_is_directory,
    check_is_writable,
    disk_is_not_full,
    make_directory,
    not_formatted,
)

log = logging.getLogger(__name__)

FORMAT_VERSION = 1
"""Format version of the cookie file and of the whole directory."""
COOKIE = "cookie.json"
UNFINISHED = COOKIE + ".new"
LOG = "log"
INDEX = "index"

LEASES_TO_WAIT = 3
"""A dead bookie's lease may last up to this many times as long as stated, because the store may have been restarted, or
may have renewed the lease even after the bookie's death."""

LEASE_LOOK_SECONDS = 0.2

LEASE_GRACE_SECONDS = 1.0
"""A lease may last this much longer than stated, because stores count in whole seconds."""

COOKIE_BYTES_MAX = 4096
"""Size limit of a cookie file; a longer file is not a cookie, and the remainder is not read."""

_ORDERED = {OrderKind.DRAIN: "drained", OrderKind.GIVEN_UP: "decommissioned"}
_CANCEL = {
    OrderKind.DRAIN: "bookledger bookie drain",
    OrderKind.GIVEN_UP: "bookledger cluster decommission",
}

NAMES = ("bookie_id", "cluster_id", "incarnation")


class LockedDirectory:
    """A data directory that this process has locked; `close` or the end of the process releases the lock."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    @property
    def log(self) -> Path:
        return self.path / LOG

    @property
    def index(self) -> Path:
        return self.path / INDEX

    def lasting_paths(self) -> tuple[Path, ...]:
        """Paths of the files and directories that are never replaced after the first start."""
        life = self.path / directory_generation.NAME
        return self.path, self.log, self.index, self.index / "data.mdb", self.path / COOKIE, life

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def lock(path: Path) -> LockedDirectory:
    """Locks the directory. Raises DataDirectoryError if the directory is unformatted or in use."""
    check_is_directory(path)
    if not (path / COOKIE).is_file():
        raise _no_cookie(path)
    check_is_writable(path, path / COOKIE, path / LOG, path / INDEX)
    # The cookie itself is locked: a separate lock file could be deleted, which would let in a second process.
    fd = os.open(path / COOKIE, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise DataDirectoryError(f"{path} is in use by another bookie process; stop it first") from None
    return LockedDirectory(path, fd)


def _no_cookie(path: Path) -> DataDirectoryError:
    """Returns the error for a missing cookie: the directory was never formatted, or the cookie was lost."""
    if not (path / LOG).is_dir() or (path / UNFINISHED).exists():
        return not_formatted(path)
    return DataDirectoryError(
        f"{path / COOKIE} is gone, and the log of a bookie is there: put the file back (it identifies the cluster and "
        "the bookie), or decommission the bookie; only an empty directory can be formatted"
    )


def read_cookie(path: Path) -> Cookie:
    """Reads the cookie of a formatted directory. Raises DataDirectoryError."""
    try:
        return _cookie_in(path / COOKIE)
    except FileNotFoundError:
        raise _no_cookie(path) from None
    except ValueError as error:
        raise DataDirectoryError(
            f"{path / COOKIE} cannot be read ({error}); the directory is damaged"
        ) from error


def name_in(path: Path) -> str:
    """Returns the bookie id of a directory, for log lines; "" if it cannot be read."""
    try:
        return read_cookie(path).bookie_id
    except (DataDirectoryError, OSError):  # the code that needs the cookie reports the full error
        return ""


def _cookie_in(file: Path) -> Cookie:
    """Parses a cookie file. Raises ValueError if the file is not a cookie, or DataDirectoryError if it has another
    format version."""
    found = _json_in(file)
    if isinstance(found, dict) and "format_version" in found:
        raise DataDirectoryError(
            f"{file} was written by a build older than the first release of bookledger, and no release can read it: "
            "use the directory with that build, or format an empty one"
        )
    version = found.pop("version", None) if isinstance(found, dict) else None
    if type(version) is not int or version < 1:
        raise ValueError("it has no format version")
    if version > FORMAT_VERSION:
        raise NewerFormat(str(file), FORMAT_VERSION)
    predecessors = found.pop("predecessors", None)
    if found.keys() != set(NAMES) or not all(isinstance(name, str) for name in found.values()):
        raise ValueError(f"it does not contain {', '.join(NAMES)}")
    keys.check_name(found["bookie_id"])
    if not isinstance(predecessors, list) or len(predecessors) > PREDECESSORS_MAX:
        raise ValueError(f"its predecessors are not a list of at most {PREDECESSORS_MAX} items")
    for incarnation in (found["incarnation"], *predecessors):
        if not isinstance(incarnation, str) or str(uuid.UUID(incarnation)) != incarnation:
            raise ValueError(f"{incarnation} is not an incarnation")
    return Cookie(**found, predecessors=tuple(predecessors))


def _json_in(file: Path) -> Any:
    """Parses a small JSON file. Raises ValueError."""
    with open(file, "rb") as opened:
        data = opened.read(COOKIE_BYTES_MAX + 1)
    if len(data) > COOKIE_BYTES_MAX:
        raise ValueError(f"it has more than {COOKIE_BYTES_MAX} bytes")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


async def format_directory(
    path: Path, bookie_id: str, store: MetadataStore, *, replace: bool = False, wait: bool = False
) -> Cookie:
    """Formats an empty directory for a bookie, with a new incarnation, and registers its cookie.

    With `replace`, the name may belong to a bookie that is permanently lost. From then on, the old bookie's incarnation
    is refused. Its positions in the metadata remain until a repair assigns them to the new bookie (rule W7), and any
    order to drain or decommission it is withdrawn. A killed bookie stays registered until its lease expires; `wait`
    waits for that. Raises DataDirectoryError, and changes nothing, if the directory is not empty or the name is taken.
    Formatting again completes a format that was interrupted by a crash. The steps are:

    1. The identity is written to `cookie.json.new`. It is not recorded anywhere else yet.
    2. The cookie is written to the metadata. From here on, the name belongs to this directory.
    3. Log and index are created, and `cookie.json.new` is renamed to `cookie.json`.
    """
    keys.check_name(bookie_id)
    begun = _interrupted_format(path)
    if await hold.read(store) is not None and await cluster.cluster_id(store) is None:
        raise DataDirectoryError(await why_no_cluster(store))
    known = await store.get(keys.cookie(bookie_id))
    if known is not None and (begun is None or known.value != begun.encode()):
        await _check_replaceable(store, bookie_id, replace=replace, wait=wait)
    if known is None or begun is None or known.value != begun.encode():
        await _end_order(store, bookie_id)
    cluster_id = await cluster.cluster_id(store, create=True)
    assert cluster_id is not None
    if begun is not None and (begun.bookie_id, begun.cluster_id) != (bookie_id, cluster_id):
        raise DataDirectoryError(
            f"the formatting of {path} for bookie {begun.bookie_id} was interrupted; finish it, or empty the directory"
        )
    cookie = begun or Cookie(cluster_id, bookie_id, str(uuid.uuid4()))
    if known is None or known.value != cookie.encode():
        cookie = dataclasses.replace(cookie, predecessors=await _predecessors(store, bookie_id, known))
    with disk_is_not_full(path):
        make_directory(path)
        _write_unfinished(path, cookie)
    await take_name(store, cookie, known)
    with disk_is_not_full(path):
        _finish(path, cookie)
    return cookie


async def _predecessors(store: MetadataStore, bookie_id: str, known: Versioned | None) -> tuple[str, ...]:
    if known is not None:
        return Cookie.decode(known.key, known.value).line
    return await decommissioned_bookies.line_of(store, bookie_id)


async def _check_replaceable(store: MetadataStore, bookie_id: str, *, replace: bool, wait: bool) -> None:
    if not replace:
        raise DataDirectoryError(
            f"the name {bookie_id} belongs to a bookie that is already formatted; choose another name, or, if its "
            "disk is lost for good, format with --replace"
        )
    key = keys.bookie(bookie_id)
    for _ in range(LEASES_TO_WAIT if wait else 0):
        left = await store.lease_left(key)
        if left is None:
            break
        log.warning(
            "bookie %s stays registered for another %.0f s, or longer if it is alive: waiting",
            bookie_id,
            left,
        )
        await _until_gone(store, key, left + LEASE_GRACE_SECONDS)
    if await store.get(key) is not None:
        left = await store.lease_left(key) or 0.0
        raise DataDirectoryError(
            f"bookie {bookie_id} is registered: it is alive, or was killed and its lease runs for another "
            f"{left:.0f} s; stop it if it is running, otherwise try again after that time, or use --wait"
        )


async def _end_order(store: MetadataStore, bookie_id: str) -> None:
    """Withdraws orders to drain or decommission the former bookie. An order for maintenance remains in force, because
    it concerns the host, not the disk."""
    order = await operator_requests.read(store, bookie_id)
    if order is None or order.kind is OrderKind.MAINTENANCE:
        return
    try:
        await operator_requests.take_back(store, bookie_id)
    except StoreRefused as error:
        raise DataDirectoryError(
            f"bookie {bookie_id} was ordered to be {_ORDERED[order.kind]}, and would still refuse new entries; this "
            f"role may not cancel the order ({error}): have an operator run "
            f"`{_CANCEL[order.kind]} {bookie_id} --cancel`, then format again"
        ) from None
    log.warning(
        "withdrew the order that bookie %s be %s, because the order applied to the former disk",
        bookie_id,
        _ORDERED[order.kind],
    )


async def _until_gone(store: MetadataStore, key: str, seconds_max: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds_max
    while await store.get(key) is not None and loop.time() < deadline:  # noqa: ASYNC110 — keys are polled
        await asyncio.sleep(LEASE_LOOK_SECONDS)


async def take_name(store: MetadataStore, cookie: Cookie, known: Versioned | None) -> None:
    """Writes this cookie to the metadata. If the answer to an earlier write was lost, recognizes that write by the
    incarnation (rule M1)."""
    key, value = keys.cookie(cookie.bookie_id), cookie.encode()
    if known is not None and known.value == value:
        return
    try:
        await settled_writes.write(store, key, value, None if known is None else known.version)
    except (KeyExists, VersionConflict):
        if await cluster.read_cookie(store, cookie.bookie_id) != cookie:
            raise DataDirectoryError(
                f"the name {cookie.bookie_id} was just taken by another bookie"
            ) from None


def _interrupted_format(path: Path) -> Cookie | None:
    """Returns the identity left behind by an interrupted format, or None for an empty or missing directory.

    Raises DataDirectoryError if the directory holds anything else.
    """
    names = set(os.listdir(path)) if path.is_dir() else set()
    interrupted = UNFINISHED in names and names <= {UNFINISHED, LOG, INDEX}
    if path.exists() and not (path.is_dir() and (interrupted or not names)):
        raise DataDirectoryError(
            f"{path} is not an empty directory; a bookie can only be formatted in an empty one"
        )
    if not interrupted:
        return None
    try:
        return _cookie_in(path / UNFINISHED)
    except ValueError:
        return None  # a crash interrupted the write: that identity is not recorded anywhere else


def _write_unfinished(path: Path, cookie: Cookie) -> None:
    with open(path / UNFINISHED, "w") as file:
        fields = {"version": FORMAT_VERSION, **cookie.names, "predecessors": cookie.predecessors}
        json.dump(fields, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path)
    sync_directory(path.parent)


def _finish(path: Path, cookie: Cookie) -> None:
    (path / LOG).mkdir(exist_ok=True)
    (path / INDEX).mkdir(exist_ok=True)
    # From now on there is always a segment, so a log without segments has lost them.
    segment_files.resume_or_begin(OsDisk(path / LOG), 0, cookie.incarnation).close()
    # The cookie is written last: a directory without a cookie is not formatted, whatever else it contains.
    os.rename(path / UNFINISHED, path / COOKIE)
    sync_directory(path)


def check_parts(path: Path) -> None:
    """Raises DataDirectoryError if the log or index directory is gone, or the log has lost all its segments.

    A bookie that has lost its log must not start empty and answer "no such entry" (rule R6).
    """
    for part in (path / LOG, path / INDEX):
        check_part(part)
    if not segment_files.numbers(OsDisk(path / LOG)):
        raise DataDirectoryError(
            f"{path / LOG} holds no segment: this bookie's entries are lost. Put the files back, or decommission "
            "this bookie and format a new one in an empty directory"
        )


def check_part(part: Path) -> None:
    """Raises DataDirectoryError if the log or index directory is gone."""
    if not part.is_dir():
        raise DataDirectoryError(
            f"{part} is missing from a formatted bookie directory; put it back, or decommission this bookie and "
            "format a new one in an empty directory"
        )
