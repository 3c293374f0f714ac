"""Every pair of messages of a small run of two writers, each lost, coming twice, or coming late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

from tests.simulation.engine.runs import Failed

from .plan import DROP, LATE, TWICE, Plan, Tamper, Writer
from .run import play

Message = tuple[str, str, str, int]

TWO_WRITERS = Plan(
    seed=1,
    writers=(Writer(0.0, ((1, 1),), leaves_open=True), Writer(40.0, ((1,),))),
    heals_at=95.0,
)
"""The first leaves a segment open, and the second one recovers it and writes another."""

HOWS = (DROP, TWICE, LATE)


def messages(*, answers: bool) -> list[Message]:
    """What the two writers send when nothing goes wrong, and what they are answered."""
    sent = play(TWO_WRITERS, tracing=False).messages
    return [message for message in sent if answers or not message[0].endswith("reply")]


def plans(sent: list[Message]) -> Iterator[Plan]:
    """The run with each pair of messages meddled with, in every pair of ways."""
    for pair in combinations(sent, 2):
        for hows in product(HOWS, repeat=2):
            tampers = tuple(Tamper(*message, how) for message, how in zip(pair, hows, strict=True))
            yield replace(TWO_WRITERS, faults=tampers)


def failing(some: Iterator[Plan]) -> Iterator[Failed]:
    """Those that break a promise."""
    for plan in some:
        try:
            play(plan, tracing=False)
        except Failed as failed:
            yield failed
