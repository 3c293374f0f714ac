"""`--audit-log FILE`: where a process keeps what it has to answer for."""

from __future__ import annotations

import logging
import os
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, cast

from metadata.audit import AUDIT

FILE_BYTES_MAX = 64 * 1024 * 1024
FILES_MAX = 10
"""The oldest goes when there would be more."""

log = logging.getLogger(__name__)


class AuditLog(RotatingFileHandler):
    """A file for its owner alone, and those before it: FILE.1 the latest, FILE.9 the oldest."""

    _is_stuck = False

    def _open(self) -> TextIOWrapper:
        fd = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return cast("TextIOWrapper", cast("IO[str]", os.fdopen(fd, "a", encoding="utf-8")))

    def doRollover(self) -> None:  # noqa: N802 — logging's name
        """Where files cannot be renamed, this one grows."""
        try:
            super().doRollover()
        except OSError as error:
            if not self._is_stuck:
                log.error("the audit log cannot be rotated, and grows: %s", error)
            self._is_stuck = True
            self.stream = self._open()
        else:
            self._is_stuck = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 — logging's name
        """A full disk ends nobody; the line is told where other lines go."""
        log.error("the audit log cannot be written; what it lacks: %s", record.getMessage(), exc_info=True)


def keep(path: Path) -> None:
    """From now on this process keeps its lines there. Raises OSError."""
    handler = AuditLog(path, maxBytes=FILE_BYTES_MAX, backupCount=FILES_MAX - 1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    AUDIT.addHandler(handler)
    AUDIT.setLevel(logging.INFO)
    AUDIT.propagate = False
