"""Exit codes of commands, as documented in docs/day-to-day.md."""

from __future__ import annotations

import signal
from enum import IntEnum

BY_SIGNAL = 128
"""Added to the number of the signal that ended the command."""


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
    ExitCode.DONE: "done; of a daemon, stopped as it was told; of commands that check something, nothing is wrong",
    ExitCode.FAILED: "failed, with one line on stderr; of commands that check something, something is wrong",
    ExitCode.WRONG_USAGE: "wrong usage: nothing was done",
    ExitCode.PARTLY: "done in part: of `ledger salvage`, the file is there, and something is missing or not proven",
    ExitCode.HUNG_UP: "ended by SIGHUP, such as by a terminal that was closed; daemons without a terminal read their "
    "secrets again instead",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; long work says on stderr how to go on",
    ExitCode.KILLED: "killed by SIGKILL, as the shell tells it; nothing was said",
    ExitCode.NOBODY_READS: "whoever read standard output has seen enough, such as `head`; nothing was said",
    ExitCode.TERMINATED: "ended by SIGTERM; long work says on stderr how to go on",
}


def is_of_signal(code: object) -> bool:
    """Whether an exit code means that a signal ended the command."""
    return isinstance(code, int) and code > BY_SIGNAL
