"""Has the C library keep the memory of pages for the next ones.

By default glibc returns it to the kernel when a few pages are freed, and each page then begins with hundreds of page
faults: they may take more time than all checks of the page together.
"""

from __future__ import annotations

import ctypes

KEPT_BYTES_MAX = 32 * 1024 * 1024
"""Free memory kept by each thread that allocates: more than a task reads ahead."""

MAPPED_BYTES_MIN = 8 * 1024 * 1024
"""What is larger than any message comes from the kernel, and returns to it at once."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Of this process, from now on; does nothing where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
