"""The clock for leases in a file: it is monotonic, so that no step of the wall clock affects it, and it has a name.

All processes of the same boot and time namespace read the same monotonic clock. Readings of clocks with different names
cannot be compared.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TIME_NAMESPACE = Path("/proc/self/ns/time")


class LeaseClock:
    """This process's monotonic clock. It stops while the machine is suspended, as do all holders of leases."""

    def __init__(self) -> None:
        self.name = f"{_boot_id()} {_time_namespace()}"

    def now(self) -> float:
        """Returns the seconds since a moment that is the same for all clocks of this name."""
        return time.monotonic()


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except (
        OSError
    ):  # a kernel without boot ids; leases from an earlier boot still expire within their time to live
        return ""


def _time_namespace() -> str:
    try:
        return os.readlink(TIME_NAMESPACE)
    except OSError:  # a kernel without time namespaces, or a process that may not read its namespace's name
        return ""
