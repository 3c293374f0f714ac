"""The real disk, with syncs that wait while a test says so."""

from __future__ import annotations

import threading
from pathlib import Path

from bookie.disk.disk import OsDisk, OsFile
from tests.bookie.logs import WAIT_SECONDS_MAX


class SlowSyncFile(OsFile):
    """A file whose syncs wait for `go_on`."""

    go_on: threading.Event

    def datasync(self) -> None:
        assert self.go_on.wait(WAIT_SECONDS_MAX)
        super().datasync()


class SlowSyncDisk(OsDisk):
    """The real disk, with syncs that wait while a test says so."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory)
        self.go_on = threading.Event()
        self.go_on.set()

    def create(self, name: str) -> OsFile:
        super().create(name).close()
        return self.open(name)

    def open(self, name: str) -> OsFile:
        file = SlowSyncFile(self._directory / name, 2)
        file.go_on = self.go_on
        return file
