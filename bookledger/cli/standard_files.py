"""Guards standard input, output and error: opens them at the start, and flushes them at the end.

A shell can start a program with any of them closed. The next file that the program opens, perhaps the metadata, would
then receive the messages meant for the closed stream.
"""

from __future__ import annotations

import os
import select
import sys

STDIN, STDOUT, STDERR = 0, 1, 2


_input_was_closed = False


class OutputClosed(OSError):
    """Standard output was closed before the command started; nothing was done."""


def secure() -> None:
    """Opens /dev/null in place of a closed standard input or error. Raises OutputClosed for output."""
    global _input_was_closed
    if not _is_open(STDIN):
        _input_was_closed = True
        _null_at(STDIN)
        sys.stdin = os.fdopen(STDIN, closefd=False)
    output_closed = not _is_open(STDOUT)
    if output_closed:
        _null_at(STDOUT)
        sys.stdout = os.fdopen(STDOUT, "w", closefd=False)
    if not _is_open(STDERR):
        _null_at(STDERR)
        sys.stderr = os.fdopen(STDERR, "w", closefd=False)
    if output_closed:
        raise OutputClosed("standard output is closed; redirect it to /dev/null to discard it")


def input_was_closed() -> bool:
    """Returns whether standard input was closed when the command started."""
    return _input_was_closed


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _null_at(fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != fd:
        os.dup2(null, fd)
        os.close(null)


def has_no_reader() -> bool:
    """Returns whether standard output is a pipe whose read end has been closed."""
    poll = select.poll()
    poll.register(STDOUT, 0)  # errors are reported regardless of the events requested
    return any(event & select.POLLERR for _, event in poll.poll(0))


def discard_output() -> None:
    """Redirects standard output to /dev/null, so that flushing it at exit does not fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, STDOUT)
    os.close(null)
