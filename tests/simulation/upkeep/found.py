"""Bugs of the product's own that this layer has found, each with the smallest plan that shows it, made by `shrink`.

`bug` plants it again: the plan must find it, and hold without.
"""

from __future__ import annotations

from tests.simulation.engine.found import Found

from . import planted
from .plan import (
    Append,
    Change,
    Checkpoint,
    Collect,
    Compact,
    Crash,
    Delete,
    Fence,
    LoseIndex,
    LosePlace,
    LoseSegment,
    OlderCopy,
    Plan,
    Read,
    RebuildIndex,
    Repair,
    Restart,
    Rot,
    Scrub,
    Sizes,
    StoreFails,
)

FOUND = (
    Found(
        "R6: a bookie that died while it went into limbo had forgotten that it had lost something",
        Plan(
            seed=117,
            steps=(
                StoreFails(after=5),
                Append(ledger=3),
                LoseIndex(),
                Append(ledger=3),
                Change(ledger=2),
                Rot(),
                Scrub(),
                Append(ledger=0),
                LoseIndex(),
            ),
        ),
        planted.forgets_a_loss_that_it_has_checkpointed,
        "limbo",
    ),
    Found(
        "B3: the state of a deleted ledger stayed in memory where somebody asked while it was forgotten",
        Plan(
            seed=532,
            steps=(
                Append(ledger=0),
                Append(ledger=0, entries=4),
                Delete(ledger=0),
                Fence(ledger=0),
                Collect(beside=True),
                Append(ledger=0),
            ),
        ),
        planted.keeps_what_is_looked_up_while_it_forgets,
        "B3",
    ),
    Found(
        "B2: a damaged frame behind the end of a closed ledger stayed for ever, and its segment with it",
        Plan(
            seed=1012,
            steps=(
                Collect(),
                Append(ledger=1, entries=4, beside=True),
                RebuildIndex(cleanly=False),
                LoseSegment(),
            ),
        ),
        planted.looks_for_damage_only_where_something_is_placed,
        "B2",
    ),
    Found(
        "B2: a frame that was moved while a page with other damage was read again was called damaged too",
        Plan(
            seed=100816,
            steps=(
                Append(ledger=0),
                Append(ledger=0),
                Restart(),
                Append(ledger=0, first=4),
                Restart(),
                Rot(nth=-4),
                Compact(beside=True),
                Read(ledger=0, beside=True),
                Read(ledger=0),
            ),
        ),
        planted.looks_again_only_while_places_change,
        "B2",
    ),
    Found(
        "the layer itself: a place that was lost of an entry that the metadata no longer places here stays lost",
        Plan(
            seed=348778134,
            steps=(
                Append(ledger=5, beside=True),
                Change(ledger=5),
                Append(ledger=3, entries=4),
                Collect(),
                LosePlace(nth=23),
            ),
        ),
    ),
    Found(
        "the layer itself: a repair brought what an earlier fragment of an open ledger places here; nobody sent it",
        Plan(seed=204448198, steps=(Append(ledger=1, first=2), Change(ledger=1), OlderCopy(), Repair())),
    ),
    Found(
        "the layer itself: a place that was lost stays so, where a compaction came before a scrub had ended",
        Plan(
            seed=872723639,
            sizes=Sizes(payload=60),
            steps=(
                Append(ledger=1, entries=3),
                Append(ledger=3, entries=2),
                Append(ledger=5),
                Append(ledger=5, first=3),
                Append(ledger=5, first=5),
                Append(ledger=5, first=7, entries=2),
                Append(ledger=5, first=9),
                Append(ledger=0, entries=3),
                Append(ledger=1, first=5),
                Append(ledger=3, first=3, entries=3),
                Append(ledger=3, first=3, entries=3),
                Checkpoint(),
                Rot(nth=-2),
                Compact(ratio=1.1),
                Append(ledger=5, first=21),
                Append(ledger=1, entries=2),
                Compact(ratio=1.1, beside=True),
                Crash(after=12),
                LosePlace(nth=22),
                Append(ledger=4),
                Compact(),
                LosePlace(nth=91),
            ),
        ),
    ),
)
