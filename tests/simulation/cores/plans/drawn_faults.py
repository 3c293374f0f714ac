"""Kinds of faults as independent draws; a plan draws its own few kinds of them (swarm)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from . import plan as plans
from .sketch import Sketch

BEYOND = 0.2
"""A share of the plans with losses loses more copies than the ledger must survive: only safety is asked for then."""


def rules(sketch: Sketch) -> None:
    nodes = [*sketch.bookie_names, plans.METADATA, *sketch.clients]
    for _ in sketch.some(1, 2, 4):
        node, is_source = sketch.rng.choice(nodes), sketch.chance(0.5)
        rule = plans.Rule(
            sketch.rng.choice(plans.MESSAGE_KINDS),
            node if is_source else "",
            "" if is_source else node,
            late=sketch.chance(0.5),
            probability=sketch.rng.choice((0.3, 0.7, 1.0)),
        )
        if sketch.chance(0.4):
            rule = replace(rule, at=sketch.time(0, 120), seconds=sketch.time(10, 60))
        sketch.rules.append(rule)


def cuts(sketch: Sketch) -> None:
    for _ in sketch.some(1, 3, 6):
        ends = ((sketch.client(),), (sketch.bookie(),))
        if sketch.chance(0.5):
            ends = (ends[1], ends[0])
        sketch.faults.append(
            plans.Cut(
                sketch.time(0, 120),
                *ends,
                seconds=sketch.rng.choice((10.0, 60.0)),
                both_ways=sketch.chance(0.4),
            )
        )


def partitions(sketch: Sketch) -> None:
    """One node alone, two groups, one way only, a ring; held back instead of lost at times."""
    at, seconds = sketch.time(0, 120), sketch.rng.choice((15.0, 60.0))
    clients, bookies = [*sketch.clients, plans.METADATA], sketch.bookie_names
    shape = sketch.rng.choice(("one node", "groups", "ring", "clogs"))
    if shape == "one node":
        node = sketch.rng.choice(clients + bookies)
        others = tuple(name for name in clients + bookies if name != node)
        sketch.faults.append(plans.Cut(at, (node,), others, seconds, both_ways=sketch.chance(0.6)))
    elif shape == "groups":
        ones = tuple(sketch.rng.sample(clients, sketch.rng.randint(1, len(clients) - 1)))
        others = tuple(sketch.rng.sample(bookies, sketch.rng.randint(1, len(bookies) - 1)))
        both, holds = sketch.chance(0.6), sketch.chance(0.3)
        sketch.faults.append(plans.Cut(at, ones, others, seconds, both_ways=both, holds=holds))
    elif shape == "ring":
        for n, client in enumerate(sketch.clients):
            away = tuple(name for m, name in enumerate(bookies) if (m - n) % len(bookies) > 1)
            sketch.faults.append(plans.Cut(at, (client,), away, seconds, both_ways=True))
    else:  # clogged one by one, opened in another order
        for node in sketch.rng.sample(bookies, sketch.rng.randint(1, len(bookies))):
            begin = round(at + sketch.time(0, 10), 1)
            end = sketch.time(10, 60)
            sketch.faults.append(
                plans.Cut(
                    begin, tuple(sketch.clients), (node,), end, both_ways=sketch.chance(0.5), holds=True
                )
            )


def pauses(sketch: Sketch) -> None:
    for _ in sketch.some(1, 2, 3):
        node = sketch.client() if sketch.chance(0.6) else sketch.bookie()
        sketch.faults.append(plans.Pause(sketch.time(0, 120), node, sketch.time(10, 60)))


def crashes(sketch: Sketch) -> None:
    for _ in sketch.some(1, 2, 4):
        seconds = sketch.rng.choice((0.1, 5.0, 20.0, 100.0))
        sketch.faults.append(
            plans.Crash(
                sketch.time(0, 150), sketch.bookie(), seconds, sketch.rng.choice((0.0, 0.0, 0.5, 1.0))
            )
        )


def client_crashes(sketch: Sketch) -> None:
    for _ in sketch.some(1, 1, 2):
        sketch.faults.append(
            plans.Crash(sketch.time(5, 150), sketch.client(), sketch.rng.choice((5.0, 40.0)))
        )


def disks(sketch: Sketch) -> None:
    """What a disk recovers from."""
    for _ in sketch.some(1, 2, 3):
        at, bookie = sketch.time(0, 120), sketch.bookie()
        fault = sketch.rng.choice(
            (
                plans.FailSync(at, bookie, sketch.time(1, 40), sketch.rng.choice((0.0, 0.5, 1.0))),
                plans.ReadErrors(at, bookie, sketch.time(20, 200), sketch.rng.choice((0.3, 0.8))),
                plans.Full(at, bookie, sketch.time(10, 60)),
                plans.ReadOnly(at, bookie, sketch.time(10, 100)),
                plans.SlowDisk(at, bookie, sketch.rng.choice((5.0, 15.0))),
            )
        )
        sketch.faults.append(fault)


def losses(sketch: Sketch) -> None:
    """Copies lost for good: so many that a confirmed entry keeps one, or at times more."""
    may_lose = sketch.shape[2] - 1 + (sketch.rng.randint(1, 2) if sketch.chance(BEYOND) else 0)
    for _ in range(may_lose):
        at, bookie = sketch.time(5, 200), sketch.bookie()
        if sketch.chance(0.5):
            sketch.faults.append(plans.Wipe(at, bookie, sketch.time(1, 60)))
        else:
            how = sketch.rng.choice(("damaged", "wrong bytes", "misdirected"))
            ids = sketch.rng.sample(range(8), sketch.rng.randint(1, 3))
            sketch.faults += [plans.Rot(at, bookie, entry_id, how) for entry_id in ids]


def swaps(sketch: Sketch) -> None:
    one, other = sketch.rng.sample(sketch.bookie_names, 2)
    sketch.faults.append(plans.Swap(sketch.time(10, 120), one, other, sketch.time(10, 80)))


def store(sketch: Sketch) -> None:
    for _ in sketch.some(1, 2, 3):
        at = sketch.time(0, 150)
        fault = sketch.rng.choice(
            (
                plans.StoreAway(at, sketch.time(5, 60), sketch.chance(0.5)),
                plans.Touch(at),
                plans.LeaseLost(at, sketch.bookie(), sketch.time(20, 80)),
            )
        )
        sketch.faults.append(fault)


KINDS: tuple[tuple[Callable[[Sketch], None], float], ...] = (
    (rules, 0.45),
    (cuts, 0.4),
    (partitions, 0.12),
    (pauses, 0.3),
    (crashes, 0.45),
    (client_crashes, 0.25),
    (disks, 0.3),
    (losses, 0.2),
    (swaps, 0.04),
    (store, 0.25),
)


def swarm(sketch: Sketch, share: float = 1.0) -> None:
    for kind, probability in KINDS:
        if sketch.chance(probability * share):
            kind(sketch)
