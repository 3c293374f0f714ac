"""Tags log lines with the id of their bookie, because several bookies may run in one process and write to one log.

Tasks inherit the tag from the task that created them. Threads get it from `thread_of`, or from the context that they
run in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_bookie_id: ContextVar[str] = ContextVar("bookie_id", default="")

LIFE = logging.getLogger("bookledger.life")
"""Logs starts and stops, even if otherwise only warnings and errors are logged."""


def bookie_now() -> str:
    """Returns the bookie id of the current task or thread; "" if there is none."""
    return _bookie_id.get()


@contextmanager
def lines_of(bookie_id: str) -> Iterator[None]:
    """Sets the bookie id for tasks and threads created inside the block."""
    token = _bookie_id.set(bookie_id)
    try:
        yield
    finally:
        _bookie_id.reset(token)


def thread_of() -> Callable[[], None]:
    """Returns a thread initializer that gives the thread the caller's bookie id."""
    bookie_id = _bookie_id.get()

    def begin() -> None:
        _bookie_id.set(bookie_id)

    return begin
