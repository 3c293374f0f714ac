"""The audit log of a process, `--audit-log FILE`: a rotated file of security-relevant actions."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, cast

from metadata.audit import AUDIT
from metadata.settings.tunable import tunable

MIB = 1024 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsConfig:
    """Retention of a process's audit log."""

    audit_log_bytes_max: int = tunable(
        64 * MIB,
        "Maximum size of one file of the audit log before the next file is started.",
        64 * 1024,
        2**36,
    )
    audit_log_files_max: int = tunable(
        10,
        "Maximum number of audit log files; the oldest is deleted when this would be exceeded.",
        2,
        10_000,
    )


class AuditLog(RotatingFileHandler):
    """A rotated log file with mode 600: FILE.1 is the most recently rotated file, FILE.9 the oldest."""

    _is_stuck = False

    def _open(self) -> TextIOWrapper:
        fd = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return cast("TextIOWrapper", cast("IO[str]", os.fdopen(fd, "a", encoding="utf-8")))

    def doRollover(self) -> None:  # noqa: N802 — logging's name
        """Rotates the files. If they cannot be renamed, the current file keeps growing."""
        try:
            super().doRollover()
        except OSError as error:
            if not self._is_stuck:
                log.error("the audit log cannot be rotated, and keeps growing: %s", error)
            self._is_stuck = True
            self.stream = self._open()
        else:
            self._is_stuck = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 — logging's name
        """Reports the lost line in the process's ordinary log, because a full disk must not stop the process."""
        why = sys.exc_info()[1]
        log.error("the audit log cannot be written (%s); the missing line: %s", why, record.getMessage())


def keep(path: Path, config: LogsConfig | None = None) -> None:
    """Starts writing this process's audit log to the file. Raises OSError."""
    config = config or LogsConfig()
    files_before = config.audit_log_files_max - 1
    handler = AuditLog(path, maxBytes=config.audit_log_bytes_max, backupCount=files_before, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    AUDIT.addHandler(handler)
    AUDIT.setLevel(logging.INFO)
    AUDIT.propagate = False
