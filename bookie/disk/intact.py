"""Whether the files of a serving bookie are still found under their names.

A cleaner of /tmp, a wrong `rm` or a file system mounted over the directory takes them away under the bookie, which
could go on for long with what it has open, and lose all of it with its end. The log looks at its segment with every
sync (`disk.OsFile`); this looks at the rest, and also while nobody writes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import DirectoryLost
from .disk import Disk

LOOK_SECONDS = 1.0


class Intact:
    """What stood under these paths when it was made."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._found = {path: os.stat(path) for path in paths}

    def check(self) -> None:
        """Raises DirectoryLost for the first path under which something else stands now, or nothing."""
        for path, before in self._found.items():
            try:
                now = os.stat(path)
            except OSError:
                raise DirectoryLost(str(path)) from None
            if not os.path.samestat(before, now):
                raise DirectoryLost(str(path))


async def watch(
    intact: Intact,
    disk: Disk,
    open_segment: Callable[[], Path],
    fail: Callable[[DirectoryLost], None],
    look_seconds: float = LOOK_SECONDS,
) -> None:
    """Says to `fail` why the bookie has to end as after a failed sync, once its directory is lost (rule B1).

    The segment in which the log ends has to be there, too, whichever it is by now.
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
