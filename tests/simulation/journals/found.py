"""Bugs of the product's own, each with a small plan that shows it.

`bug` plants it again: the plan must find it, and hold without.
"""

from __future__ import annotations

from tests.simulation.engine.found import Found

from . import planted_in_acceptors as acceptors
from . import planted_in_managers as managers
from .plan import WITHIN, Crash, Cut, Figures, Pause, Plan, Reader, Tamper, Writer

FOUND = (
    Found(
        "J6: a reader was shown what a writer had left at one acceptor and a recovery had accepted at another",
        Plan(
            seed=1,
            writers=(
                Writer(0.0, ((1, 1),)),
                Writer(60.0),
                Writer(120.0),
                Writer(200.0),
            ),
            readers=(Reader(176.0, looks=3, every=4.0),),
            faults=(
                Tamper("SendEdits", "w0", "a1", 2),
                Tamper("SendEdits", "w0", "a2", 2),
                Cut("w1", "a0", 60.0, 200.0),
                Tamper("AcceptRecovery", "w1", "a1"),
                Cut("w2", "a2", 120.0, 200.0),
                Tamper("AcceptRecovery", "w2", "a0"),
                Cut("r0", "a2", 150.0, 100.0),
                Cut("w3", "a1", 200.0, 100.0),
            ),
            heals_at=270.0,
        ),
        managers.counts_copies_of_different_recoveries,
        "J6",
    ),
    Found(
        "J4: an acceptor that missed the choice finalized another writer's edits of the same end",
        Plan(
            seed=1,
            writers=(
                Writer(0.0, ((2,),)),
                Writer(60.0, ((2,),), leaves_open=True),
                Writer(120.0),
            ),
            faults=(
                Cut("w0", "a1", 0.0, 60.0, "SendEdits"),
                Cut("w0", "a2", 0.0, 60.0, "SendEdits"),
                Cut("w1", "a0", 60.0, 60.0),
                Tamper("AcceptRecovery", "w2", "a0"),
            ),
            heals_at=190.0,
        ),
        acceptors.finalizes_what_it_has_not_accepted,
        "J4",
    ),
    Found(
        "ledgers: a start whose swap was never answered deleted its ledger, and the swap stood",
        Plan(seed=38, writers=(Writer(0.0),), figures=Figures(unknown=0.02), heals_at=73.0),
        acceptors.deletes_the_ledger_of_a_swap_without_an_answer,
        "ledgers",
    ),
    Found(
        "discard: a copy that was overruled reached behind what was discarded, and it was refused for good",
        Plan(
            seed=6,
            form=WITHIN,
            acceptors=5,
            writers=(
                Writer(0.0, ((3, 1, 1),), attempts=2),
                Writer(10.6),
                Writer(20.1, (), attempts=0),
                Writer(42.6, attempts=3),
            ),
            figures=Figures(slow=0.03),
            heals_at=81.0,
            admin="discard",
        ),
        acceptors.a_discard_minds_what_is_in_progress,
        "QuorumFailed",
    ),
    Found(
        "contract: a later writer finalized a segment while an earlier one's acceptance of it was under way",
        Plan(
            seed=467974859,
            form=WITHIN,
            writers=(
                Writer(0.0, ((2, 2),), attempts=3),
                Writer(11.8),
                Writer(36.5),
                Writer(56.5, attempts=3),
            ),
            faults=(Crash("w2", at=40.0, down=0.0),),
            figures=Figures(unknown=0.02, slow=0.03),
            heals_at=73.2806970056719,
        ),
        acceptors.blames_a_writer_for_what_a_later_one_decided,
        "contract",
    ),
    Found(
        "J5: who had stood still merged old manifests of some acceptors with a new one of another, and saw a gap",
        Plan(
            seed=930179118,
            form=WITHIN,
            acceptors=5,
            writers=(
                Writer(at=0.0, think=4.0),
                Writer(at=20.4, segments=((1, 1), (3,), (3,)), depth=2, attempts=2, think=1.0, purges=True),
                Writer(at=48.8),
                Writer(at=78.1, segments=((1,), (3,))),
            ),
            faults=(Pause(host="w1", at=72.71, seconds=60.0),),
            figures=Figures(unknown=0.02),
            heals_at=117.0,
        ),
        managers.merges_answers_of_different_times,
        "J5",
    ),
)
