"""Runs `bookledger …` with bookies that count and time while they are told to.

    python -m tests.measure.counting_switch …

From SIGUSR1 on they do; from SIGUSR2 on they do not, and at the beginning.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from bookie.storage.storage_metrics import BookieMetrics

COUNT, DO_NOT_COUNT = signal.SIGUSR1, signal.SIGUSR2


class Switch:
    """Whether bookies of this process count."""

    def __init__(self) -> None:
        self.is_on = False
        signal.signal(COUNT, lambda *_: self._turn(is_on=True))
        signal.signal(DO_NOT_COUNT, lambda *_: self._turn(is_on=False))

    def _turn(self, *, is_on: bool) -> None:
        self.is_on = is_on

    def guarded(self, count: Callable[..., None]) -> Callable[..., None]:
        """The same, while it is on."""

        def counted(*given: Any) -> None:
            if self.is_on:
                count(*given)

        return counted


if __name__ == "__main__":
    switch = Switch()
    for name in ("stored", "synced", "read", "answered"):
        setattr(BookieMetrics, name, switch.guarded(getattr(BookieMetrics, name)))

    from bookledger.cli.main import main

    main()
