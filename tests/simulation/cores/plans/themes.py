"""Themes: faults placed to meet the step they are meant for, which independent draws do once in ten thousand seeds."""

from __future__ import annotations

import random
from dataclasses import replace

from metadata import placement

from .drawn_faults import swarm
from .plan import (
    WRITER,
    Append,
    Crash,
    Cut,
    Delete,
    Figures,
    Pause,
    ReadErrors,
    Recover,
    Rot,
    Rule,
    SetBack,
    Wipe,
)
from .sketch import BOOKIES_MAX, RECOVERERS_MAX, Sketch, ground, reading, recovering, writing


def anything(sketch: Sketch) -> None:
    """Independent draws."""
    ground(sketch)
    writing(sketch)
    recovering(sketch)
    reading(sketch)
    swarm(sketch)


def fence_and_crash(sketch: Sketch) -> None:
    """Some bookies are fenced and crash, others are not reached; the writer comes back and knows of nothing (F1, F13).

    No bookie is spare, so that the writer takes failed places back without a change of metadata.
    """
    ground(sketch, ((3, 3, 2), (3, 3, 2), (2, 2, 1), (3, 2, 2), (4, 3, 2)), spare=0)
    sketch.recoverers = 1
    sketch.figures = Figures(
        sync_seconds=sketch.rng.choice((0.5, 2.0, 5.0)), patience_seconds=sketch.rng.choice((15.0, 100.0))
    )
    writing(sketch, 0.0, 10.0)
    names = sketch.rng.sample(sketch.bookie_names, sketch.bookies)
    reach = sketch.rng.randint(1, sketch.bookies - 1)
    fenced, missed = names[:-reach], names[-reach:]
    begin = sketch.time(15, 30)
    sketch.operations.append(Recover(begin, "r0"))
    kinds = sketch.rng.choice((("lac",), ("lac", "read"), ("lac", "read"), ("read",)))
    sketch.rules += [Rule(kind, "r0", name, late=sketch.chance(0.3)) for name in missed for kind in kinds]
    # The writer is held off from what is fenced and stays up, hears nothing while recovery goes on, then writes.
    down = fenced[: sketch.rng.randint(0, len(fenced))]
    for name in fenced:
        if name in down:
            at = begin + sketch.time(1, 40)
            sketch.faults.append(Crash(round(at, 1), name, sketch.rng.choice((0.1, 5.0, 20.0)), 0.0))
        elif sketch.chance(0.8):
            sketch.faults.append(Cut(begin - 10, (WRITER,), (name,), 200.0, both_ways=True))
    sketch.faults.append(Pause(round(begin - 3, 1), WRITER, sketch.time(10, 60)))
    late = round(begin + sketch.time(0, 110), 1)
    sketch.operations += [Append(late, (2,)), Append(round(late + 10, 1), (1, 1))]


def changes(sketch: Sketch) -> None:
    """The writer changes its ensemble while entries wait, acks are late and compare-and-swaps slow (F6 … F9)."""
    ground(sketch, ((4, 2, 2), (4, 3, 2), (5, 3, 2), (3, 2, 2), (2, 2, 1), (3, 3, 2)))
    sketch.bookies = min(BOOKIES_MAX, sketch.shape[0] + sketch.rng.randint(1, 3))
    writing(sketch, 0.0, 40.0)
    recovering(sketch, 30.0, 150.0)
    reading(sketch, tails=0.35, gaps=0.6)
    for _ in range(sketch.rng.randint(1, 3)):
        at, victim = sketch.time(0, 35), sketch.rng.choice(sketch.bookie_names[: sketch.shape[0] + 1])
        if sketch.chance(0.5):
            sketch.faults.append(Crash(at, victim, sketch.rng.choice((0.1, 20.0, 200.0)), 0.5))
        else:
            sketch.faults.append(Cut(at, (WRITER,), (victim,), sketch.time(5, 60)))
    if sketch.chance(0.7):
        kind = sketch.rng.choice(("cas", "cas reply"))
        ends = (WRITER, "") if kind == "cas" else ("", WRITER)
        sketch.rules.append(
            Rule(kind, *ends, late=sketch.chance(0.7), probability=sketch.rng.choice((0.5, 1.0)))
        )
    for _ in sketch.some(0, 1, 2):
        sketch.rules.append(
            Rule("ack", sketch.bookie(), WRITER, late=True, probability=sketch.rng.choice((0.5, 1.0)))
        )
    swarm(sketch, 0.3)


def duel(sketch: Sketch) -> None:
    """Recoverers overlap, read late, change their ensembles and die, and a reader tails (F3 … F5, F18)."""
    ground(sketch, ((3, 3, 2), (3, 3, 2), (4, 3, 2), (3, 2, 2), (5, 3, 2), (4, 2, 2)))
    sketch.recoverers = sketch.rng.randint(2, RECOVERERS_MAX)
    writing(sketch, 0.0, 15.0)
    begin = sketch.time(5, 30)
    recovering(sketch, begin, begin + sketch.rng.choice((5.0, 30.0, 60.0)))
    reading(sketch, tails=0.5)
    for _ in range(sketch.rng.randint(1, 3)):
        kind = sketch.rng.choice(("read reply", "read", "lac reply", "add", "ack"))
        to = sketch.recoverer()
        ends = (sketch.bookie(), to) if kind in ("read reply", "lac reply", "ack") else (to, sketch.bookie())
        sketch.rules.append(
            Rule(kind, *ends, late=sketch.chance(0.7), probability=sketch.rng.choice((0.5, 1.0)))
        )
    for _ in sketch.some(0, 1, 2):
        at = round(begin + sketch.time(0, 40), 1)
        sketch.faults.append(Crash(at, sketch.bookie(), sketch.rng.choice((20.0, 100.0)), 0.5))
    for _ in sketch.some(0, 1, 1):
        sketch.faults.append(Crash(round(begin + sketch.time(3, 60), 1), sketch.recoverer(), 50.0))
    swarm(sketch, 0.25)


def few_copies(sketch: Sketch) -> None:
    """An ack quorum has what was confirmed, and recovery meets damage, errors or silence there (F11, F12).

    Of each write set some bookies never get the entries, one is bad, and those with good copies answer late.
    """
    ground(sketch, ((3, 3, 2), (3, 3, 2), (4, 3, 2), (5, 3, 2), (3, 2, 2), (3, 3, 3), (5, 3, 3)))
    sketch.figures = replace(sketch.figures, loss=0.0, patience_seconds=100.0)
    writing(sketch, 0.0, 8.0)
    names = sketch.rng.sample(sketch.bookie_names[: sketch.shape[0]], sketch.shape[0])
    lacking = names[: sketch.rng.randint(1, max(1, sketch.shape[1] - sketch.shape[2]))]
    sketch.faults += [Cut(0.0, (WRITER,), (name,), 150.0, holds=True) for name in lacking]
    died = sketch.time(8, 20)
    sketch.faults.append(Crash(died, WRITER))
    sketch.recoverers = sketch.rng.choice((1, 1, 2))
    recovering(sketch, died + 1, died + 20)
    _spoil(sketch, names[len(lacking)], died)
    for name in names[len(lacking) + 1 :]:
        if sketch.chance(0.8):
            sketch.rules.append(
                Rule("read reply", name, "", late=True, probability=sketch.rng.choice((0.7, 1.0)))
            )
    reading(sketch)
    swarm(sketch, 0.15)


def _spoil(sketch: Sketch, bookie: str, died: float) -> None:
    """The copies of one bookie are of no use to recovery."""
    at, fault = round(died + sketch.time(-2, 4), 1), sketch.rng.randrange(5)
    if fault == 0:
        sketch.faults.append(ReadErrors(at, bookie, 100.0, 1.0))
    elif fault == 1:
        sketch.rules.append(Rule("read", "", bookie, at=at, seconds=60.0))
    elif fault == 2 and sketch.shape[2] > 1:
        sketch.faults.append(Wipe(at, bookie, sketch.time(0, 5)))
        sketch.bookies += 1
    else:
        how = sketch.rng.choice(("damaged", "damaged", "wrong bytes", "misdirected"))
        sketch.faults += [Rot(at, bookie, entry_id, how) for entry_id in range(sketch.rng.randint(1, 6))]


def read_race(sketch: Sketch) -> None:
    """Recovery reads an entry while it is still on its way to a bookie that was not fenced yet (F1)."""
    ground(sketch, ((3, 3, 2), (3, 3, 2), (2, 2, 1), (4, 3, 2), (3, 2, 2), (4, 2, 2), (3, 3, 3)))
    sketch.figures = Figures(sync_seconds=sketch.rng.choice((0.5, 2.0)), slow=sketch.rng.choice((0.0, 0.05)))
    sketch.recoverers = sketch.rng.choice((1, 1, 2))
    written = sketch.time(0, 5)
    sketch.operations.append(Append(written, tuple([1] * sketch.rng.randint(1, 3))))
    begin = round(max(0.0, written + sketch.time(-3, 6)), 1)
    recovering(sketch, begin, begin + 3.0)
    names = sketch.rng.sample(sketch.bookie_names[: sketch.shape[0]], sketch.shape[0])
    has_it = sketch.rng.randint(1, max(1, sketch.shape[0] - 2))
    for name in names[has_it:]:
        sketch.rules.append(Rule("add", WRITER, name, late=True))
    for name in names[:has_it]:
        sketch.rules.append(
            Rule("read reply", name, "r0", late=True, probability=sketch.rng.choice((0.7, 1.0)))
        )
    for name in sketch.rng.sample(names[has_it:], sketch.rng.randint(1, len(names[has_it:]))):
        sketch.rules.append(Rule("lac", "r0", name, late=sketch.chance(0.6)))
    reading(sketch)
    swarm(sketch, 0.1)


def deletion(sketch: Sketch) -> None:
    """Somebody deletes the ledger under its writer, recoverers and readers."""
    ground(sketch)
    writing(sketch)
    recovering(sketch)
    reading(sketch, tails=0.4)
    sketch.operations.append(Delete(sketch.time(10, 150)))
    swarm(sketch, 0.5)


def absent_from_the_start(sketch: Sketch) -> None:
    """Some bookies were absent when the ledger was created; most are down, and come back while it is written (W9)."""
    size = sketch.shape[0]
    rng = random.Random(f"absent {sketch.seed}")
    count = rng.randint(1, placement.gaps_max(*sketch.shape)) if placement.gaps_max(*sketch.shape) else 0
    gaps = placement.with_gaps([False] * (size - count), [True] * count, size)
    sketch.absent = tuple(n for n, is_absent in enumerate(gaps) if is_absent)
    for n in sketch.absent:
        if rng.random() < 0.8:
            sketch.faults.append(Crash(0.0, f"b{n}", rng.choice((10.0, 30.0, 60.0, 1000.0))))


def set_back(sketch: Sketch) -> None:
    """The metadata goes back to an older copy, most often after ensemble changes, and is accepted later (W8).

    Not where a disk is lost, too: what only its bookie has noted would be lost with it.
    """
    rng = random.Random(f"set back {sketch.seed}")
    if any(isinstance(fault, Wipe) for fault in sketch.faults):
        return
    at, seconds = round(rng.uniform(5, 200), 1), rng.choice((0.1, 5.0, 30.0, 100.0))
    sketch.faults.append(SetBack(at, rng.choice((1, 1, 2, 3, 8)), seconds))
