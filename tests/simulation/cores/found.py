"""Plans that found bugs, made small, kept so that the same bug never comes back."""

from __future__ import annotations

from tests.simulation.engine.found import Found

from .plans.plan import Append, AppendAs, Close, Crash, Cut, Figures, Pause, Plan, Recover, Rot, Rule
from .planted import in_recovery as recovery
from .planted import in_writer as writer
from .planted import on_bookies as bookies

FOUND = (
    Found(
        "F1: e0 reaches b0, which is not fenced, after recovery has read there and found nothing",
        Plan(
            seed=54,
            shape=(3, 3, 2),
            bookies=3,
            figures=Figures(sync_seconds=0.5),
            rules=(
                Rule(kind="add", source="writer", target="b2"),
                Rule(kind="add", source="writer", target="b0", late=True),
                Rule(kind="read reply", source="b1", target="r0"),
                Rule(kind="lac", source="r0", target="b0"),
            ),
            operations=(
                Append(at=0.0),
                Recover(at=6.0),
            ),
        ),
        recovery.reads_without_fencing,
        "I1",
    ),
    Found(
        "F8: the acks of a replaced bookie still count, and nobody sends its entries again",
        Plan(
            seed=109,
            shape=(3, 3, 3),
            bookies=5,
            figures=Figures(loss=0.02, slow=0.2, duplicate=0.05, sync_seconds=0.5, patience_seconds=15.0),
            rules=(Rule(kind="add", target="b1", late=True),),
            operations=(
                Append(at=10.0),
                Append(at=20.0),
                Append(at=30.0),
            ),
        ),
        writer.does_not_withdraw_acks_of_replaced_bookies,
        "I3",
    ),
    Found(
        "F11: of three copies one never came, one is damaged and one bookie is down",
        Plan(
            seed=46,
            shape=(5, 3, 2),
            bookies=5,
            operations=(
                Append(at=0.0, sizes=(1, 1, 1)),
                Append(at=10.0),
                Recover(at=30.0),
            ),
            faults=(
                Cut(at=0.0, sources=("writer",), targets=("b4",), seconds=150.0),
                Rot(at=20.0, bookie="b3", entry_id=3),
                Crash(at=30.0, node="b0", seconds=20.0),
            ),
        ),
        recovery.takes_damage_for_absence,
        "I1",
    ),
    Found(
        "F5: the writer closes at its LAC while recovery tells readers of an entry beyond it",
        Plan(
            seed=6,
            shape=(3, 3, 2),
            bookies=3,
            figures=Figures(sync_seconds=0.5),
            rules=(
                Rule(kind="lac", source="r0", target="b0"),
                Rule(kind="lac", source="r0", target="b1"),
            ),
            operations=(
                Recover(at=30.0),
                Append(at=50.0),
                Close(at=60.0),
            ),
            faults=(
                Cut(at=20.0, sources=("writer",), targets=("b2",), seconds=200.0),
                Pause(at=30.0, node="writer", seconds=50.0),
            ),
        ),
        recovery.recovery_tells_an_advancing_lac,
        "I6",
    ),
    Found(
        "F13: b0 forgets its fence at a crash and takes what the writer sends after the close",
        Plan(
            seed=227,
            shape=(2, 2, 1),
            bookies=2,
            figures=Figures(loss=0.1, patience_seconds=15.0),
            operations=(
                Recover(at=20.0, client="r1"),
                AppendAs(at=40.0, entry_id=0, size=4),
            ),
            faults=(Crash(at=40.0, node="b0", seconds=0.0),),
        ),
        bookies.forgets_a_fence_unseen,
        "I1",
    ),
)
