"""Memory settings that a worker applies only once, because Spark runs many tasks in it, one after another.

The C library keeps the memory of freed pages, and later pages reuse it. By default, glibc returns this memory to the
kernel when a few pages are freed, so each later page begins with hundreds of page faults, which may take more time than
all checks of the page.

The garbage collector skips all objects that exist when these settings are applied, such as imported modules. Otherwise
Spark makes it scan every object in the worker after each task, which may take as long as the task itself.
"""

from __future__ import annotations

import ctypes
import gc

KEPT_BYTES_MAX = 32 * 1024 * 1024
"""Free memory that each allocating thread keeps; it is more than a task's read-ahead."""

MAPPED_BYTES_MIN = 8 * 1024 * 1024
"""Allocations of this size or more come from the kernel and are returned to it at once. No message is this large."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_for_next_tasks() -> None:
    """Makes this process keep freed memory (if the C library is glibc), and makes the garbage collector skip all
    objects that exist now."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
    gc.freeze()
