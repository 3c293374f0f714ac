"""Plans that found bugs, made small, kept so that the same bug never comes back."""

from __future__ import annotations

from tests.simulation.engine.found import Found

from .plans.plan import Append, AppendAs, Close, Crash, Cut, Figures, Pause, Plan, Recover, Rot, Rule, SetBack
from .planted import in_reconciling as notes
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
    Found(
        "an older copy is accepted after a recovery that had put b3 in between two others",
        Plan(
            seed=55279651,
            shape=(3, 2, 2),
            bookies=5,
            figures=Figures(slow=0.2, sync_seconds=5.0, patience_seconds=15.0),
            rules=(
                Rule(kind="ack", source="b1", target="r0", late=True),
                Rule(kind="lac reply", source="b0", target="r0"),
            ),
            operations=(
                Append(at=2.9, sizes=(5, 6)),
                Append(at=5.2, sizes=(4, 4)),
                Append(at=8.3),
                Append(at=8.5, sizes=(5, 4, 5)),
                Recover(at=13.0, client="r1"),
                Append(at=13.7, sizes=(2, 5)),
                Recover(at=14.3),
            ),
            faults=(
                Crash(at=30.2, node="b2", seconds=20.0, keeps=0.5),
                Crash(at=48.4, node="b4", seconds=100.0, keeps=0.5),
                Crash(at=66.3, node="r1", seconds=50.0),
                SetBack(at=96.1, seconds=0.1),
            ),
        ),
        notes.tells_the_last_fragment_only,
        "I4",
    ),
    Found(
        "an older copy is accepted between an ensemble change and the first frame to the new bookie",
        Plan(
            seed=71014243,
            shape=(4, 2, 2),
            bookies=5,
            figures=Figures(loss=0.1, dead_replacements=0.1),
            operations=(
                Append(at=18.8, sizes=(3,)),
                Recover(at=107.3),
                Recover(at=142.9, client="r1"),
            ),
            faults=(
                Pause(at=14.8, node="b0", seconds=12.3),
                Pause(at=33.5, node="b2", seconds=43.6),
                SetBack(at=42.8, changes=8, seconds=5.0),
            ),
        ),
        notes.takes_a_fragment_that_does_not_stand,
        "I1",
    ),
    Found(
        "an older copy is accepted while the first frame of a fragment is on its way to the new bookie's disk",
        Plan(
            seed=88039147,
            shape=(2, 2, 1),
            bookies=3,
            figures=Figures(sync_seconds=5.0),
            operations=(
                Append(at=7.0),
                Append(at=20.0),
                Recover(at=90.0),
            ),
            faults=(
                Cut(at=0.0, sources=("writer",), targets=("b1",), seconds=20.0),
                Cut(at=10.0, sources=("writer",), targets=("b0",), seconds=40.0),
                SetBack(at=30.0, seconds=0.0),
            ),
        ),
        notes.does_not_wait_for_what_is_admitted,
        "I1",
    ),
)
