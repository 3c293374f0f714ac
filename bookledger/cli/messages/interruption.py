"""Prints one line on how to resume a long operation that was stopped by Ctrl-C or a signal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..terminal import say
from .exit_codes import ExitCode, is_of_signal


@contextmanager
def advise_when_stopped(how: Callable[[], str]) -> Iterator[None]:
    """If the work in the block is stopped, prints the text that `how` returns: what has been done, and how to continue.

    An interrupt is re-raised as SystemExit, because click would print an empty line for it.
    """
    try:
        yield
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            say(err=True)  # ends the line on which the terminal shows ^C
        say(f"bookledger: interrupted; {how()}", err=True)
        raise SystemExit(ExitCode.INTERRUPTED) from None
    except SystemExit as end:
        if is_of_signal(end.code):
            say(f"bookledger: stopped; {how()}", err=True)
        raise


def bookies_are_gone(kept: str = "") -> str:
    """Returns advice for a command that ran its own bookies. `kept`: describes any of their data that remains in
    another store."""
    besides = f", but {kept}" if kept else ""
    return f"its bookies have ended, and their files are gone{besides}; {again()}"


def nothing_changed() -> str:
    """Returns advice for a read-only command."""
    return f"nothing was changed; {again(so='begin again')}"


def again(*, so: str = "go on") -> str:
    """Returns advice to repeat the command, quoted as it was typed."""
    return f"{so} with: {shlex.join(['bookledger', *sys.argv[1:]])}"
