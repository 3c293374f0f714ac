"""What the system would not do, in words: which file, and why; never a number."""

from __future__ import annotations

import errno
import os

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
"""What happens to a file that is open already; the error does not say which. Ours name theirs, but for one."""


def os_error_told(error: OSError) -> str:
    """For one line."""
    why = error.strerror or str(error)
    if isinstance(error.filename, str | bytes):
        return f"{os.fsdecode(error.filename)}: {why}"
    if error.filename is None and error.errno in _OF_WRITING:
        return f"standard output cannot be written: {why}"
    return why
