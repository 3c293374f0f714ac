"""Detects that files of a running bookie were removed, replaced or mounted over.

A /tmp cleaner, a mistaken `rm` or a mount over the directory can make the files disappear. The bookie could still write
to the files that it has open, but everything written to them would be lost when it exits. The log checks its segment on
every sync (`disk.OsFile`). This module checks the other files, and does so even when no client is writing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import DirectoryLost
from .disk import Disk

LOOK_SECONDS = 1.0


class FileIdentities:
    """The identities that the files at these paths had when this object was created."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._found = {path: os.stat(path) for path in paths}

    def check(self) -> None:
        """Raises DirectoryLost for the first path that is missing or refers to another file."""
        for path, before in self._found.items():
            try:
                now = os.stat(path)
            except OSError:
                raise DirectoryLost(str(path)) from None
            if not os.path.samestat(before, now):
                raise DirectoryLost(str(path))


async def watch(
    intact: FileIdentities,
    disk: Disk,
    open_segment: Callable[[], Path],
    fail: Callable[[DirectoryLost], None],
    look_seconds: float = LOOK_SECONDS,
) -> None:
    """Checks the files periodically, and calls `fail` if the directory is lost: the bookie then exits, as it does after
    a failed sync (rule B1).

    Each check also requires that the log's current last segment exists.
    """
    while True:
        try:
            intact.check()
            if (segment := open_segment()).name not in disk.names():
                raise DirectoryLost(str(segment))
        except DirectoryLost as lost:
            fail(lost)
            return
        await asyncio.sleep(look_seconds)
