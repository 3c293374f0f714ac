"""A quota of a costly operation per event-loop iteration, so that other work goes on in between."""

from __future__ import annotations

import asyncio

PROOFS_A_TURN = 8
"""Proofs per iteration: checking a signature takes 0.1 ms, and an append waits for at most this many checks."""


class LoopQuota:
    """A quota served in order of arrival. Belongs to one event loop."""

    def __init__(self, a_turn: int = PROOFS_A_TURN) -> None:
        self._a_turn = self._left = a_turn
        self._line = asyncio.Lock()

    async def take(self) -> None:
        """Waits until the caller may do the operation once, now."""
        async with self._line:
            if not self._left:
                await asyncio.sleep(0)
                self._left = self._a_turn
            self._left -= 1
