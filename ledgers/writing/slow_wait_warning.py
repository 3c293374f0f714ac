"""Warns about slow waits and states the reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

log = logging.getLogger(__name__)

WARN_AFTER_SECONDS = 1.0

_is_within_one: ContextVar[bool] = ContextVar("is_within_one", default=False)


@contextmanager
def warn_when_slow(what: Callable[[], str]) -> Iterator[None]:
    """Logs, once, the reason why the block is waiting if it takes longer than WARN_AFTER_SECONDS. For use within an
    event loop.

    Inside another such block it logs nothing: the outer block describes the wait in the caller's terms.
    """
    if _is_within_one.get():
        yield
        return
    timer = asyncio.get_running_loop().call_later(WARN_AFTER_SECONDS, lambda: log.warning("%s", what()))
    _is_within_one.set(True)
    try:
        yield
    finally:
        _is_within_one.set(False)
        timer.cancel()


def why_closing_waits(ledger_id: int, unconfirmed: int, seconds_max: float) -> str:
    """Returns the warning about a slow `close`."""
    entries = f"{unconfirmed} entries to be confirmed, at most {seconds_max:g} s"
    waited_for = entries if unconfirmed else "its end to be written to the metadata"
    return f"closing ledger {ledger_id} waits for {waited_for}; interrupt it (again) to leave the ledger open"
