"""The phases of a writer."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """WRITING ⇄ CHANGING while entries flow, WRITING → CLOSING → ENDED at the end, any → ENDED on failure."""

    WRITING = "writing"
    CHANGING = "an ensemble change is in flight"
    CLOSING = "the closing change is in flight"
    ENDED = "ended"
