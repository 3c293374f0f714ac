"""Lets commands that follow a ledger, log or journal wait out outages, as its writers do."""

from __future__ import annotations

import time

from ledgers.errors import LedgerError

from ..terminal import say

PAUSE_SECONDS = 0.5
"""Pause between two attempts."""

LOOK_SECONDS = 10.0
"""After this long without new items, the command checks whether the bookies are unavailable or the metadata was rolled
back."""

ATTEMPT_SECONDS_MAX = 120.0
"""An attempt that gets no answer fails within this time. An attempt that took longer must have been answered at first,
so its failure begins a new outage."""


class Outages:
    """Successive outages of one command: announces each wait once, and fails when an outage has lasted too long.

    The time counts from the first failed attempt, and is checked after each further failure.
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._began_at: float | None = None
        self._attempt_began_at = time.monotonic()

    def failed(self, why: str, how_to_go_on: str) -> None:
        """Records a failed attempt. Once the outage has lasted too long, raises LedgerError, which says how to
        resume."""
        now = time.monotonic()
        if self._began_at is None or now - self._attempt_began_at > ATTEMPT_SECONDS_MAX:
            self._began_at = now
            if self._seconds_max:
                say(f"waiting for at most {self._seconds_max:g} s: {why}", err=True)
        self._attempt_began_at = now
        if now - self._began_at >= self._seconds_max:
            raise LedgerError(f"{why}; {how_to_go_on}")

    def is_over(self) -> None:
        """Records an answer, even one without new items."""
        if self._began_at is not None:
            self._began_at = None
            say("it goes on", err=True)
