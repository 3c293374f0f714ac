"""Bugs of the product's own that this layer has found, each with the smallest plan that shows it.

`mend` is set while the product has the bug still: every run mends it, so that the others are seen behind it. Once the
product is mended, `mend` goes and the plan stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from .plan import Append, Collect, Crash, Delete, Fence, LoseIndex, LoseSegment, Plan, Restart, Rot

Mend = Callable[[], Any]
"""Makes the context in which the product does not have the bug."""


@dataclass(frozen=True, slots=True)
class Found:
    """What happens, in words; the plan; the rule that it broke; and the mend, where it is open."""

    what: str
    plan: Plan
    rule: str
    mend: Mend | None = None


FOUND = (
    Found(
        "R6: a bookie that died while it went into limbo has forgotten that it had lost something",
        Plan(
            seed=437,
            steps=(Append(ledger=0), Append(ledger=0), Rot(), LoseIndex(), Crash(after=11), LoseIndex()),
        ),
        "limbo",
    ),
    Found(
        "B3: the state of a deleted ledger stays in memory where somebody asks while it is forgotten",
        Plan(
            seed=1200,
            steps=(
                Append(ledger=0, entries=2),
                Delete(ledger=0),
                Restart(),
                Fence(ledger=0, beside=True),
                Append(ledger=1, beside=True),
                Collect(beside=True),
                Append(ledger=0, entries=3),
            ),
        ),
        "B3",
    ),
    Found(
        "upkeep: a damaged frame behind the end of a closed ledger stays for ever, and its segment with it",
        Plan(seed=3, steps=(Append(ledger=2, deferred=True), Restart(), LoseSegment())),
        "B2",
    ),
)


@contextmanager
def open_bugs_mended() -> Iterator[None]:
    """Inside the product has none of the bugs that are open."""
    with ExitStack() as stack:
        for found in FOUND:
            if found.mend is not None:
                stack.enter_context(found.mend())
        yield
