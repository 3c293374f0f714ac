"""A plan of the layer `journals`, and with it acceptors that are brought up to date, or lost and replaced."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.simulation.journals.draw import draw as draw_without
from tests.simulation.journals.plan import ONE, Crash, Plan, Replace, Sync


def draw(seed: int) -> Plan:
    """The plan of this seed; the same wherever and whenever it is drawn."""
    plan = draw_without(seed)
    random = Random(f"sync {seed}")
    syncs = tuple(_sync(random, plan) for _ in range(random.choice((1, 1, 2, 3))))
    crashes = [Crash(f"s{n}", _at(random, plan)) for n in range(len(syncs)) if random.random() < 0.3]
    replaced: tuple[Replace, ...] = ()
    if plan.form != ONE and random.random() < 0.5:
        times = sorted(_at(random, plan) for _ in range(random.choice((1, 1, 2, 3))))
        replaced = tuple(Replace(at, random.randrange(plan.acceptors)) for at in times)
    return replace(plan, syncs=syncs, replaced=replaced, faults=(*plan.faults, *crashes))


def _sync(random: Random, plan: Plan) -> Sync:
    return Sync(_at(random, plan), random.randrange(1, 6), random.choice((0.5, 4.0, 12.0)))


def _at(random: Random, plan: Plan) -> float:
    return round(random.uniform(0, plan.heals_at), 2)
