"""A quota of a costly operation per event-loop iteration, so that other work goes on in between."""

from __future__ import annotations

import asyncio

PROOFS_A_TURN = 8
"""Checking a signature takes 0.1 ms; appends wait for no more of them than this."""


class LoopQuota:
    """First come, first served. Belongs to one event loop."""

    def __init__(self, a_turn: int = PROOFS_A_TURN) -> None:
        self._a_turn = self._left = a_turn
        self._line = asyncio.Lock()

    async def take(self) -> None:
        """Waits for the caller's turn to do it once, now."""
        async with self._line:
            if not self._left:
                await asyncio.sleep(0)
                self._left = self._a_turn
            self._left -= 1
