"""A seed becomes a plan: what clients do, and which faults come together.

Half of the plans are independent draws of a few kinds of faults; the others follow a theme.
"""

from __future__ import annotations

import random

from . import themes
from .plan import Plan
from .sketch import SHAPES, Sketch

THEMES_AND_WEIGHTS = (
    (themes.anything, 48),
    (themes.changes, 15),
    (themes.duel, 10),
    (themes.fence_and_crash, 8),
    (themes.few_copies, 9),
    (themes.read_race, 7),
    (themes.deletion, 3),
)
ABSENT_EVERY = 7
"""In one of so many plans bookies are absent when the ledger is created, whatever its theme."""

SET_BACK_EVERY = 12
"""In one of so many plans the metadata goes back to an older copy of itself."""

THEMES = {theme.__name__: theme for theme, _ in THEMES_AND_WEIGHTS}
_CHOICES = [theme for theme, _ in THEMES_AND_WEIGHTS]
_WEIGHTS = [weight for _, weight in THEMES_AND_WEIGHTS]


def draw(seed: int) -> Plan:
    """The plan of this seed; the same wherever and whenever it is drawn."""
    sketch = Sketch(random.Random(seed), seed)
    theme = sketch.rng.choices(_CHOICES, _WEIGHTS)[0]
    theme(sketch)
    if seed % ABSENT_EVERY == ABSENT_EVERY - 1:
        themes.absent_from_the_start(sketch)
    if seed % SET_BACK_EVERY == SET_BACK_EVERY - 5:
        themes.set_back(sketch)
    return sketch.plan()


__all__ = ["SHAPES", "THEMES", "draw"]
