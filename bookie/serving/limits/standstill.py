"""Who holds memory of the bookie and does not move: cut at once where others wait for it, in the end anyhow.

A peer moves by sending the rest of a message, or by taking what was sent to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from .budget import Account, Budget

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between one look and the next, while anybody holds anything."""

SHORT_LOOK_SECONDS = 0.05
"""While somebody waits."""

SLOW_SECONDS_MAX = 0.2
"""Who is slow for so long makes room for those that wait."""

PAUSE_SECONDS = 1.0
"""A look that comes so late comes after a pause of our own: nobody is to blame, what they sent has not been read."""

PACE_BYTES_A_SECOND_MIN = 64 * 1024
"""Who moves less is slow."""


class Standstill:
    """Looks at the accounts of some budgets. `begin` is called whenever one has come to hold something."""

    def __init__(self, budgets: Sequence[Budget], still_seconds_max: float) -> None:
        """Who moves nothing for so long is cut even where there is room."""
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
        log.warning("%s holds %d bytes and does not move: cut", account.peer or "a client", account.held)
        account.cut("it did not move while others waited, or for too long")


def _note_pace(account: Account, seconds: float) -> None:
    """For how long it has been slow, and for how long it has not moved at all."""
    moved, before = account.moved(), account.seen
    account.seen = moved
    if moved is None or before is None or not seconds:
        account.slow_seconds = account.still_seconds = 0.0
    else:
        is_slow = moved - before < PACE_BYTES_A_SECOND_MIN * seconds
        account.slow_seconds = account.slow_seconds + seconds if is_slow else 0.0
        account.still_seconds = account.still_seconds + seconds if moved == before else 0.0
