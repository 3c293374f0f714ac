"""What a worker does once about its memory, since Spark has it run one task after another.

The C library keeps the memory of pages for the next ones. By default glibc returns it to the kernel when a few pages
are freed, and each page then begins with hundreds of page faults: they may take more time than all checks of the page
together.

The garbage collector leaves alone what is imported by now. Spark has it look at every object of the worker after each
task, which may take as long as the task did.
"""

from __future__ import annotations

import ctypes
import gc

KEPT_BYTES_MAX = 32 * 1024 * 1024
"""Free memory kept by each thread that allocates: more than a task reads ahead."""

MAPPED_BYTES_MIN = 8 * 1024 * 1024
"""What is larger than any message comes from the kernel, and returns to it at once."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_for_next_tasks() -> None:
    """Of this process, from now on: freed memory, where the C library is glibc, and the objects that there are."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
    gc.freeze()
