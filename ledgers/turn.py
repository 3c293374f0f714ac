"""What a client does once at the end of a turn of its event loop: it takes in what was appended, then it sends.

However many ledgers were appended to and bookies are sent to, the loop is asked once, and all that was appended in one
turn goes along.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

Work = Callable[[], None]


class Turn:
    """Of one client. Belongs to one event loop; work that is asked for twice is done twice."""

    def __init__(self) -> None:
        self._takes: deque[Work] = deque()
        self._sends: deque[Work] = deque()
        self._is_asked_for = False

    def take(self, work: Work) -> None:
        """Does it at the end of this turn, before anything is sent."""
        self._takes.append(work)
        self._ask()

    def send(self, work: Work) -> None:
        """Does it at the end of this turn, behind all that is taken in."""
        self._sends.append(work)
        self._ask()

    def _ask(self) -> None:
        if not self._is_asked_for:
            self._is_asked_for = True
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        try:
            for work in (self._takes, self._sends):
                while work:
                    work.popleft()()
        finally:
            self._is_asked_for = False
            if self._takes or self._sends:  # one has failed; the others get their turn all the same
                self._ask()
