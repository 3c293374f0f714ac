"""Generation numbers of a data directory, which reveal that an older copy of the directory was restored (rule R6).

life    in the data directory, 20 digits per line: the number of starts; the number of writes of the bookie's own key
        in the metadata; the last known revision of the store; and the number of the acceptance of older metadata
        after which the bookie returned, or 0 (`metadata_watch.py`)

The metadata contains the same numbers, and the log position up to which everything was on disk when the key was
written. A directory with lower numbers was restored from a backup or a snapshot, and lacks everything stored since that
copy was made. If a bookie died, the loss of entries stored after its last renewal is not detected. The number of writes
is incremented in the directory first, so the number in the metadata is at most one lower, unless the metadata is itself
an older copy.

A start increments the number of starts in the directory first. It updates the number in the metadata once it is certain
that nothing is lost, or once every ledger that may be affected is in limbo on disk. After a crash in between, the
directory's number is higher by one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from metadata.records import directory_generations
from metadata.records.cluster import Cookie
from metadata.records.directory_generations import Life
from metadata.records.registration import Registration
from metadata.store import MetadataStore
from metadata.version import NO_VERSION, Version

from ...disk.disk import sync_directory
from ...errors import DataDirectoryError, NewerFormat
from ...upkeep.threads import in_thread

NAME = "life"
NUMBERS_MAX = 4


@dataclass(slots=True)
class Lives:
    """Generations of one bookie, in its directory and in the metadata.

    `renewals`: number of writes of the bookie's record in the metadata, including the one about to be made; `settled`:
    number of writes known to have succeeded. `version`: the last known version of the record. `revision`: the last
    known revision of the store. `returned`: number of the acceptance of older metadata (`Accepted.number`) after which
    the bookie returned; 0 if there was none. `registered_as` returns the bookie's registration, which the record
    preserves for times when the bookie is absent.
    """

    path: Path
    cookie: Cookie
    store: MetadataStore
    here: int
    known: Life
    renewals: int = 0
    revision: int = 0
    settled: int = 0
    version: Version = NO_VERSION
    returned: int = 0
    registered_as: Callable[[], Registration | None] = lambda: None

    def is_older_copy(self, position: int) -> bool:
        """Returns whether the metadata contains a later generation, or a log position beyond `position`."""
        return self.here < self.known.number or position < self.known.position

    def refuse_older_copy(self, position: int) -> None:
        """Raises DataDirectoryError if the directory is an older copy."""
        if self.is_older_copy(position):
            raise DataDirectoryError(
                f"{self.path} is an older copy of this bookie's directory, or its newest files are gone (life "
                f"{self.here}, log through {position}; the cluster has seen life {self.known.number}, log through "
                f"{self.known.position}): everything stored since is missing. Restore the newest copy, or start "
                f"with --accept-loss and run: bookledger bookie repair {self.cookie.bookie_id}"
            )

    async def begin(self, position: int) -> int:
        """Begins the next generation, and returns the version of the metadata's record. The caller has locked the
        directory, registered the name, and accounted for every loss."""
        self.here = max(self.here, self.known.number) + 1
        return await self.renew(position, create=True)

    async def renew(self, position: int, *, create: bool = False) -> int:
        """Writes the numbers to the directory, then to the metadata's record; returns the record's version. Raises
        MetadataError."""
        if self.renewals == self.settled:  # otherwise the last write may have succeeded, or may still succeed
            self.renewals += 1
        await in_thread(self.keep, create=create)
        me = self.cookie.bookie_id, self.cookie.incarnation
        now_ms, last = time.time_ns() // 1_000_000, self.registered_as()
        life = Life(self.here, position, self.renewals, last, now_ms, self.returned)
        self.version = await directory_generations.write(self.store, *me, life, version=self.version or None)
        self.settled, self.revision = self.renewals, max(self.revision, self.version)
        return self.version

    def keep(self, *, create: bool = False) -> None:
        """Saves the numbers to the directory; they are on disk when this returns. Raises OSError, including when the
        file is gone, because a directory that was removed while the bookie was running must not be written to."""
        _write(self.path, self.here, self.renewals, self.revision, self.returned, create=create)


async def look(path: Path, cookie: Cookie, store: MetadataStore) -> Lives:
    """Reads the generations from the directory and from the metadata. Raises DataDirectoryError if the directory's
    numbers cannot be read."""
    known = await directory_generations.read(store, cookie.bookie_id, cookie.incarnation)
    here, renewals, revision, returned = _read(path)
    settled = max(renewals - 1, 0)
    return Lives(path, cookie, store, here, known, renewals, revision, settled, returned=returned)


def starts_of(path: Path) -> int:
    """Returns how many times a bookie has started in this directory. Raises DataDirectoryError if the number cannot
    be read."""
    return _read(path)[0]


def _read(path: Path) -> tuple[int, int, int, int]:
    try:
        text = (path / NAME).read_bytes()
    except FileNotFoundError:
        return 0, 0, 0, 0  # formatted but never started
    lines = text.split(b"\n")
    is_whole = not lines.pop() and all(line.isdigit() for line in lines)
    if is_whole and len(lines) > NUMBERS_MAX:
        raise NewerFormat(str(path / NAME), NUMBERS_MAX)
    if not is_whole or len(lines) not in (1, NUMBERS_MAX):  # an operator may write a single line
        raise DataDirectoryError(
            f"{path / NAME} cannot be read; if nothing else is damaged, replace its content with the number of "
            "times that this bookie has started"
        )
    here, renewals, revision, returned = [int(line) for line in lines] + [0] * (4 - len(lines))
    return here, renewals, revision, returned


def _write(
    path: Path, here: int, renewals: int = 0, revision: int = 0, returned: int = 0, *, create: bool = False
) -> None:
    # Written in place, within one sector, so that this succeeds even on a full disk.
    text = b"".join(b"%020d\n" % one for one in (here, renewals, revision, returned))
    fd = os.open(path / NAME, os.O_RDWR | (os.O_CREAT if create else 0) | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_directory(path)
