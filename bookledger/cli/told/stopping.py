"""Long work that is stopped by Ctrl-C, or by a signal that ends the process, says in one line how to go on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..terminal import say
from .exit_codes import ExitCode, is_of_signal


@contextmanager
def told_when_stopped(how: Callable[[], str]) -> Iterator[None]:
    """`how` says what is done and what goes on with the rest; it is asked only when the work is stopped.

    An interrupt comes out as the SystemExit that it ends with: click would print an empty line for it.
    """
    try:
        yield
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            say(err=True)  # behind the ^C that the terminal shows
        say(f"bookledger: interrupted; {how()}", err=True)
        raise SystemExit(ExitCode.INTERRUPTED) from None
    except SystemExit as end:
        if is_of_signal(end.code):
            say(f"bookledger: stopped; {how()}", err=True)
        raise


def bookies_are_gone(kept: str = "") -> str:
    """Of a command that had bookies of its own. `kept`: what somebody else's store keeps of them."""
    besides = f", but {kept}" if kept else ""
    return f"its bookies have ended, and their files are gone{besides}; {again()}"


def again(*, so: str = "go on") -> str:
    """The command as it was typed, to be typed again."""
    return f"{so} with: {shlex.join(['bookledger', *sys.argv[1:]])}"
