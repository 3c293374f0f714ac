"""Whose a log line is: several bookies may serve in one process, and write one log.

Tasks have it from the task that made them. Threads have it from `thread_of`, or from the context that they work in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_bookie_id: ContextVar[str] = ContextVar("bookie_id", default="")

LIFE = logging.getLogger("bookledger.life")
"""What begins and what ends: said also where nothing else is but what is amiss."""


def bookie_now() -> str:
    """The bookie that this task or thread works for; empty for none."""
    return _bookie_id.get()


@contextmanager
def lines_of(bookie_id: str) -> Iterator[None]:
    """What is made inside the block works for this bookie."""
    token = _bookie_id.set(bookie_id)
    try:
        yield
    finally:
        _bookie_id.reset(token)


def thread_of() -> Callable[[], None]:
    """For a thread to call first: it works for whom this one does."""
    bookie_id = _bookie_id.get()

    def begin() -> None:
        _bookie_id.set(bookie_id)

    return begin
