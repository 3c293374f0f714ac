"""Generation number of a data directory: detects that an older copy of it was restored (rule R6).

life    in the data directory, in a line each: the number of starts, and what it has seen of the metadata last: the
        version of its own key there, and the store's revision (`metadata_rollback.py`); 20 digits each

The same number stands in the metadata, and from time to time the position in the log up to which everything is on
disk. A directory that is behind either was restored from a backup or a snapshot, and lacks what the bookie stored
since. What it stored in the last PUBLISH_SECONDS before it died is not noticed as missing.

A start raises the directory's number first, then the metadata's, when nothing is lost, or every ledger that may be
concerned is in limbo on disk. A crash in between leaves the directory one ahead.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from metadata.errors import MetadataError
from metadata.records import directory_generations
from metadata.records.cluster import Cookie
from metadata.records.directory_generations import Life
from metadata.store import MetadataStore

from ...disk.disk import sync_directory
from ...errors import DataDirectoryError

log = logging.getLogger(__name__)

NAME = "life"

PUBLISH_SECONDS = 30.0
"""How often the log's durable position is published in the metadata, if it has moved."""


@dataclass(slots=True)
class Lives:
    """Generations of one bookie: what its directory says, and what the metadata says.

    `version`: of the metadata's record as this bookie wrote it last. `revision`: of the store, as seen last.
    """

    path: Path
    cookie: Cookie
    store: MetadataStore
    here: int
    known: Life
    version: int = 0
    revision: int = 0

    def is_older_copy(self, position: int) -> bool:
        """Whether the metadata has a later generation, or in this one a log beyond `position`."""
        return self.here < self.known.number or position < self.known.position

    def refuse_older_copy(self, position: int) -> None:
        """Raises DataDirectoryError if the directory is an older copy."""
        if self.is_older_copy(position):
            raise DataDirectoryError(
                f"{self.path} is an older copy of this bookie's directory, or its newest files are gone (life "
                f"{self.here}, log through {position}; the cluster has seen life {self.known.number}, log through "
                f"{self.known.position}): what was stored since is missing. Bring the newest copy back; or start with "
                f"--accept-loss, and run: bookledger bookie repair {self.cookie.bookie_id}"
            )

    async def begin(self, position: int) -> Life:
        """Begins the next generation. The directory is locked, the name registered, and no loss unaccounted for."""
        self.here = max(self.here, self.known.number) + 1
        _write(self.path, self.here, self.version, self.revision, create=True)
        life, self.version = Life(self.here, position), 0
        await self.write(life)
        return life

    def keep(self) -> None:
        """Saves what is known to the directory; on disk when it returns. Raises OSError, also where the file is gone: a
        directory that is taken away under the bookie gets nothing new."""
        _write(self.path, self.here, self.version, self.revision)

    async def write(self, life: Life) -> None:
        me, written = (self.cookie.bookie_id, self.cookie.incarnation), self.version or None
        self.version = await directory_generations.write(self.store, *me, life, version=written)

    async def publish(self, life: Life, position: Callable[[], int]) -> None:
        """Publishes the log's durable position periodically until cancelled."""
        published = life.position
        while True:
            await asyncio.sleep(PUBLISH_SECONDS)
            if (now := position()) > published:
                try:
                    await self.write(Life(life.number, now))
                    published = now
                except MetadataError as error:
                    log.info("cannot publish the log's position, will try again: %s", error)


async def look(path: Path, cookie: Cookie, store: MetadataStore) -> Lives:
    """Reads the generations. Raises DataDirectoryError where the directory's number cannot be read."""
    known = await directory_generations.read(store, cookie.bookie_id, cookie.incarnation)
    here, version, revision = _read(path)
    return Lives(path, cookie, store, here, known, version, revision)


def starts_of(path: Path) -> int:
    """How often the bookie of this directory has started. Raises DataDirectoryError where that cannot be read."""
    return _read(path)[0]


def _read(path: Path) -> tuple[int, int, int]:
    try:
        text = (path / NAME).read_bytes()
    except FileNotFoundError:
        return 0, 0, 0  # formatted, and never started
    lines = text.split(b"\n")
    if lines.pop() or len(lines) not in (1, 3) or not all(line.isdigit() for line in lines):
        raise DataDirectoryError(
            f"{path / NAME} cannot be read; where nothing else is damaged, write into it how often this bookie has "
            "started"
        )
    here, version, revision = [int(line) for line in lines] + [0, 0] * (len(lines) == 1)
    return here, version, revision


def _write(path: Path, here: int, version: int = 0, revision: int = 0, *, create: bool = False) -> None:
    # In place, within one sector, so that a full disk has room for it.
    text = b"%020d\n%020d\n%020d\n" % (here, version, revision)
    fd = os.open(path / NAME, os.O_RDWR | (os.O_CREAT if create else 0) | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_directory(path)
