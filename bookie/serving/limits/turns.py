"""So much of something costly in each turn of the event loop, whoever asks for it: the others go on in between."""

from __future__ import annotations

import asyncio

PROOFS_A_TURN = 8
"""A signature is checked in a tenth of a millisecond; appends do not wait for more of them than this."""


class Turns:
    """First come, first served. Belongs to one event loop."""

    def __init__(self, a_turn: int = PROOFS_A_TURN) -> None:
        self._a_turn = self._left = a_turn
        self._line = asyncio.Lock()

    async def take(self) -> None:
        """Returns when the caller may do it once, now."""
        async with self._line:
            if not self._left:
                await asyncio.sleep(0)
                self._left = self._a_turn
            self._left -= 1
