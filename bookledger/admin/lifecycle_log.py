"""Logs when daemons other than bookies start and stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bookie.log_context import LIFE
from bookie.program_version import program_version


@contextmanager
def log_lifecycle(who: str, where: str = "") -> Iterator[None]:
    """Logs the start and stop of the block. `where`: appended to the version."""
    began = time.monotonic()
    LIFE.info("%s is serving: version %s%s", who, program_version(), where)
    try:
        yield
    finally:
        LIFE.info("%s is stopping; it served for %.0f s", who, time.monotonic() - began)
