"""Exit codes of commands, as documented in docs/day-to-day.md."""

from __future__ import annotations

import signal
from enum import IntEnum

BY_SIGNAL = 128
"""Offset that is added to the number of the signal that ended the command."""


class ExitCode(IntEnum):
    """All exit codes of our commands."""

    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    PARTLY = 3
    HUNG_UP = BY_SIGNAL + signal.SIGHUP
    INTERRUPTED = BY_SIGNAL + signal.SIGINT
    KILLED = BY_SIGNAL + signal.SIGKILL
    NOBODY_READS = BY_SIGNAL + signal.SIGPIPE
    TERMINATED = BY_SIGNAL + signal.SIGTERM


MEANINGS = {
    ExitCode.DONE: "success; a daemon was stopped as requested; a command that checks something found no problem",
    ExitCode.FAILED: "failure, with one line on stderr; a command that checks something found a problem",
    ExitCode.WRONG_USAGE: "wrong usage: nothing was done",
    ExitCode.PARTLY: "partial success: `ledger salvage` wrote the file, and something is missing or not proven",
    ExitCode.HUNG_UP: "ended by SIGHUP, such as by a terminal that was closed; daemons without a terminal reload their "
    "secrets instead",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; long commands print on stderr how to go on",
    ExitCode.KILLED: "killed by SIGKILL, as the shell reports it; nothing was printed",
    ExitCode.NOBODY_READS: "the reader of standard output, such as `head`, has ended; nothing was printed",
    ExitCode.TERMINATED: "ended by SIGTERM; long commands print on stderr how to go on",
}


def is_of_signal(code: object) -> bool:
    """Returns whether an exit code means that a signal ended the command."""
    return isinstance(code, int) and code > BY_SIGNAL
