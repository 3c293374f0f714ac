"""What goes wrong in a run, drawn from its seed before it begins, and done to bookies, network and store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.simulation.cores.plans.plan import (
    METADATA,
    Crash,
    Cut,
    FailSync,
    Fault,
    Figures,
    Full,
    LeaseLost,
    Pause,
    ReadErrors,
    Rule,
    SlowDisk,
    StoreAway,
    WatchGap,
)
from tests.simulation.engine.chance import Stream

from .bookies import VirtualBookie
from .metadata import VirtualMetadata
from .site import Site

FAULTY_SECONDS = 30.0
"""Faults begin within this time; `runs` makes everything work some time after."""

KINDS = (
    "add",
    "ack",
    "lac",
    "lac reply",
    "read",
    "read reply",
    "info",
    "info reply",
    "cas",
    "cas reply",
    "watch",
)
PACES_SECONDS = (0.001, 0.01, 0.1, 0.4)
SYNCS_SECONDS = (0.001, 0.05, 1.0)


def draw_figures(chance: Stream) -> Figures:
    return Figures(
        loss=chance.choice((0.0, 0.0, 0.01, 0.05)),
        slow=chance.choice((0.0, 0.05, 0.15)),
        sync_seconds=chance.choice(SYNCS_SECONDS),
    )


def draw_rules(chance: Stream, nodes: Sequence[str]) -> tuple[Rule, ...]:
    """Messages of one kind, to or from one node, are lost or late for a while."""
    return tuple(_draw_rule(chance, nodes) for _ in range(chance.choice((0, 0, 1, 2, 4))))


def _draw_rule(chance: Stream, nodes: Sequence[str]) -> Rule:
    ends = {chance.choice(("source", "target")): chance.choice((*nodes, METADATA, ""))}
    return Rule(
        kind=chance.choice(KINDS),
        late=chance.happens(0.5),
        probability=chance.choice((0.3, 0.7, 1.0)),
        at=chance.uniform(0, FAULTY_SECONDS),
        seconds=chance.choice((2.0, 10.0, 40.0)),
        **ends,
    )


def draw_faults(chance: Stream, bookies: Sequence[str], clients: Sequence[str]) -> tuple[Fault, ...]:
    single = [_draw_fault(chance, bookies, clients) for _ in range(chance.choice((0, 1, 3, 6, 10)))]
    together = [_draw_crash_without_store(chance, bookies) for _ in range(chance.choice((0, 0, 1, 3)))]
    return (*single, *(fault for both in together for fault in both))


def _draw_crash_without_store(chance: Stream, bookies: Sequence[str]) -> tuple[Fault, Fault]:
    """A bookie must be replaced just when the metadata cannot be changed, or not be seen to be."""
    at, away = chance.uniform(0, FAULTY_SECONDS), chance.uniform(0, 0.5)
    crash = Crash(at, chance.choice(bookies), seconds=20.0)
    return crash, StoreAway(at + away, seconds=chance.choice((3.0, 10.0)), applies=chance.happens(0.5))


def _draw_fault(chance: Stream, bookies: Sequence[str], clients: Sequence[str]) -> Fault:
    at, bookie, client = chance.uniform(0, FAULTY_SECONDS), chance.choice(bookies), chance.choice(clients)
    seconds = chance.choice((0.5, 5.0, 20.0))
    match chance.below(12):
        case 0 | 1 | 2:
            return Crash(at, bookie, seconds=seconds, keeps=chance.unit())
        case 3 | 4:
            other = chance.choice((bookie, bookie, METADATA))
            return Cut(at, (client,), (other,), seconds=seconds, both_ways=chance.happens(0.5))
        case 5:
            return Cut(at, (bookie,), (client,), seconds=seconds)
        case 6:
            return Pause(at, bookie, seconds=seconds)
        case 7:
            return StoreAway(at, seconds=seconds, applies=chance.happens(0.5))
        case 8:
            return LeaseLost(at, bookie) if chance.happens(0.5) else WatchGap(at, client, seconds=seconds)
        case 9:
            keeps = chance.unit()
            is_full = chance.happens(0.5)
            return Full(at, bookie, seconds=seconds) if is_full else FailSync(at, bookie, keeps=keeps)
        case 10:
            return ReadErrors(at, bookie, seconds=seconds)
        case _:
            return SlowDisk(at, bookie, factor=chance.choice((3.0, 30.0)))


def happen(fault: Fault, site: Site, bookies: Mapping[str, VirtualBookie], store: VirtualMetadata) -> None:
    """The fault's time has come."""
    match fault:
        case Cut():
            site.cut(fault)
        case Crash():
            bookie = bookies[fault.node]
            bookie.crash(fault.keeps)
            site.world.after(fault.seconds, bookie.restart)
        case Pause():
            bookies[fault.node].pause(fault.seconds)
        case StoreAway():
            store.go_away(fault.seconds, applies=fault.applies)
        case LeaseLost():
            store.lose_lease(fault.bookie)
        case WatchGap():
            store.hold_back(fault.client, fault.seconds)
        case Full() | FailSync() | ReadErrors() | SlowDisk():
            bookies[fault.bookie].damage(fault)
        case _:
            raise AssertionError(f"{fault} is not drawn here")
