"""Warns about slow waits, and says what is waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

log = logging.getLogger(__name__)

SAY_AFTER_SECONDS = 1.0

_is_within_one: ContextVar[bool] = ContextVar("is_within_one", default=False)


@contextmanager
def told_when_long(what: Callable[[], str]) -> Iterator[None]:
    """Warns once what the block waits for, if it takes longer than SAY_AFTER_SECONDS. Within an event loop.

    Within another such block it says nothing: that one says what it waits for in the caller's words.
    """
    if _is_within_one.get():
        yield
        return
    timer = asyncio.get_running_loop().call_later(SAY_AFTER_SECONDS, lambda: log.warning("%s", what()))
    _is_within_one.set(True)
    try:
        yield
    finally:
        _is_within_one.set(False)
        timer.cancel()


def why_closing_waits(ledger_id: int, unconfirmed: int, seconds_max: float) -> str:
    """The warning of a slow `close`."""
    entries = f"{unconfirmed} entries to be confirmed, {seconds_max:g} s at most"
    waited_for = entries if unconfirmed else "its end to be written to the metadata"
    return f"closing ledger {ledger_id} waits for {waited_for}; interrupt it (again) to leave the ledger open"
