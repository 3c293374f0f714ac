"""Explains operating system errors by file and reason, never by number."""

from __future__ import annotations

import errno
import os

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors that occur on an open file, and so do not name the file. Our own code adds the name, except for standard
output."""


def describe_os_error(error: OSError) -> str:
    """Describes the error in one line."""
    why = error.strerror or str(error)
    if isinstance(error.filename, str | bytes):
        return f"{os.fsdecode(error.filename)}: {why}"
    if error.filename is None and error.errno in _OF_WRITING:
        return f"standard output cannot be written: {why}"
    if error.filename is None and error.errno == errno.EIO:
        return f"a file that was named cannot be read, or standard output cannot be written: {why}"
    return why
