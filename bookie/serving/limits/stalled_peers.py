"""Cuts stalled peers, which hold memory and make no progress: at once if others wait for it, or after a time limit.

A peer makes progress if it sends the rest of a message, or takes bytes sent to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from .shared_quota import Account, Budget

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Check interval while anything is held."""

SHORT_LOOK_SECONDS = 0.05
"""Check interval while a request waits."""

SLOW_SECONDS_MAX = 0.2
"""A peer that is slow for this long is cut if others wait for the memory it holds."""

PAUSE_SECONDS = 1.0
"""A check this late means that our own process paused. No peer counts as stalled then, because their bytes have not
been read."""

PACE_BYTES_A_SECOND_MIN = 64 * 1024
"""A peer that makes less progress is slow."""


class StalledPeers:
    """Checks the accounts of some quotas. Call `begin` whenever an account begins to hold something."""

    def __init__(self, budgets: Sequence[Budget], still_seconds_max: float) -> None:
        """`still_seconds_max`: a peer without progress for this long is cut even if no request waits."""
        self._still_seconds_max = still_seconds_max
        self.cuts = 0
        self._budgets = budgets
        for budget in budgets:
            budget.on_short = self._hurry
        self._look: asyncio.TimerHandle | None = None
        self._looked_at = 0.0

    def begin(self) -> None:
        if self._look is None:
            self._looked_at = asyncio.get_running_loop().time()
            self._look_later(LOOK_SECONDS)

    def end(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    # ------------------------------------------------------------------------------------------

    def _hurry(self) -> None:
        soon = asyncio.get_running_loop().time() + SHORT_LOOK_SECONDS
        if self._look is not None and self._look.when() > soon:
            self._look.cancel()
            self._look_later(SHORT_LOOK_SECONDS)

    def _look_later(self, seconds: float) -> None:
        self._look = asyncio.get_running_loop().call_later(seconds, self._look_around)

    def _look_around(self) -> None:
        assert self._look is not None
        now, due = asyncio.get_running_loop().time(), self._look.when()
        self._look = None
        seconds, self._looked_at = now - self._looked_at, now
        was_stopped = now - due > PAUSE_SECONDS
        for budget in self._budgets:
            for account in list(budget.accounts):
                _note_pace(account, 0.0 if was_stopped else seconds)
                is_in_the_way = account.slow_seconds >= SLOW_SECONDS_MAX and budget.is_short_for(account.peer)
                if is_in_the_way or account.still_seconds >= self._still_seconds_max:
                    self._cut(account)
        if any(budget.accounts for budget in self._budgets):
            is_short = any(budget.somebody_waits for budget in self._budgets)
            self._look_later(SHORT_LOOK_SECONDS if is_short else LOOK_SECONDS)

    def _cut(self, account: Account) -> None:
        self.cuts += 1
        log.warning(
            "%s holds %d bytes and makes no progress: its connection is closed",
            account.peer or "a client",
            account.held,
            extra={"peer": account.peer},
        )
        account.cut("it made no progress while others waited, or for too long")


def _note_pace(account: Account, seconds: float) -> None:
    """Updates how long the peer has been slow, and how long it has made no progress."""
    moved, before = account.moved(), account.seen
    account.seen = moved
    if moved is None or before is None or not seconds:
        account.slow_seconds = account.still_seconds = 0.0
    else:
        is_slow = moved - before < PACE_BYTES_A_SECOND_MIN * seconds
        account.slow_seconds = account.slow_seconds + seconds if is_slow else 0.0
        account.still_seconds = account.still_seconds + seconds if moved == before else 0.0
