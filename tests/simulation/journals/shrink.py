"""How the plans of this layer become simpler.

A writer is not taken out of the middle, since faults name writers by number: it becomes one that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from tests.simulation.engine.shrink import defaults, rounder, with_default, with_fewer, with_simpler_items

from .plan import Plan, Writer


def fewer(plan: Plan) -> Iterator[Plan]:
    """Without some faults, readers, writers."""
    yield from with_fewer(plan, "faults", "readers", "replaced", "syncs")
    if plan.writers:
        yield replace(plan, writers=plan.writers[:-1])
    for n, writer in enumerate(plan.writers):
        yield _with_writer(plan, n, Writer(writer.at, segments=(), attempts=0))


def plainer(plan: Plan) -> Iterator[Plan]:
    yield replace(plan, admin="")
    yield from with_default(plan, "figures")
    for n, writer in enumerate(plan.writers):
        for name, value in defaults(writer):
            if writer.attempts:
                yield _with_writer(plan, n, replace(writer, **{name: value}))
        if len(writer.segments) > 1:
            yield _with_writer(plan, n, replace(writer, segments=writer.segments[:-1]))
        if writer.attempts > 1:
            yield _with_writer(plan, n, replace(writer, attempts=1))
        for m, batches in enumerate(writer.segments):
            if len(batches) > 1:
                shorter = (*writer.segments[:m], batches[:-1], *writer.segments[m + 1 :])
                yield _with_writer(plan, n, replace(writer, segments=shorter))
    yield from _with_plainer_items(plan)


def _with_plainer_items(plan: Plan) -> Iterator[Plan]:
    for name in ("faults", "readers", "syncs", "replaced"):
        yield from with_simpler_items(plan, name, lambda item: chain(defaults(item), rounder(item)))
    yield replace(plan, heals_at=float(round(plan.heals_at)))


def _with_writer(plan: Plan, n: int, writer: Writer) -> Plan:
    return replace(plan, writers=(*plan.writers[:n], writer, *plan.writers[n + 1 :]))
