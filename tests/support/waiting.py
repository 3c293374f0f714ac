"""Waiting for a condition, in tests without an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], seconds_max: float = 60) -> None:
    """Returns once it is so."""
    given_up_at = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < given_up_at, "it never came to that"
        time.sleep(0.005)
