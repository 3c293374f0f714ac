"""Outages that a command which follows something waits through, as the writers of it do."""

from __future__ import annotations

import time

from ledgers.errors import LedgerError

from ..terminal import say

PAUSE_SECONDS = 0.5
"""Between two attempts."""

ATTEMPT_SECONDS_MAX = 120.0
"""No attempt takes longer to fail while nobody answers: one that did had answers before, and another outage begins."""


class Outages:
    """Of one command, one after the other: says once that it waits, and when each has lasted too long."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._began_at: float | None = None
        self._attempt_began_at = time.monotonic()

    def failed(self, why: str, how_to_go_on: str) -> None:
        """An attempt failed. Raises LedgerError, with where to go on from, when the outage has lasted too long."""
        now = time.monotonic()
        if self._began_at is None or now - self._attempt_began_at > ATTEMPT_SECONDS_MAX:
            self._began_at = now
            if self._seconds_max:
                say(f"waiting, for {self._seconds_max:g} s at most: {why}", err=True)
        self._attempt_began_at = now
        if now - self._began_at >= self._seconds_max:
            raise LedgerError(f"{why}; {how_to_go_on}")

    def is_over(self) -> None:
        """Something came, or whoever was asked has answered that there is nothing."""
        if self._began_at is not None:
            self._began_at = None
            say("it goes on", err=True)
