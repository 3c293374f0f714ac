"""The plan of a seed."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.cores.plans.plan import METADATA
from tests.simulation.engine.chance import Stream, key_of

from . import plan as plans
from .plan import Plan

KEEPING_SHARE = 0.3
LEADING_SHARE = 0.15
SHARING_SHARE = 0.1
AWAY_SHARE = 0.3

CLOCKS_SHARE = 0.2
FAILS_AT_FIRST_SHARE = 0.1
GOING_BACK_SHARE = 0.15
ONE_END_SHARE = 0.25
ORDERED_SHARE = 0.4
FORKING_SHARE = 0.1
FORKS_BACK_SHARE = 0.4

LEADERS = "leaders 94371"
"""Under this key the seeds that are known to find planted bugs of writers and retention have no leaders."""

TROUBLES = "troubles of groups"
"""Under this key the seeds that are known to find planted bugs of sets draw the same sets as before."""

CLOCKS = "clocks 3404"
"""Under this key they have no clocks that step, either."""

FAILS_AT_FIRST = "fails at first 27"
"""Under this key no ledger of theirs fails while it is added to the log."""

GOING_BACK = "going back 7"
"""Under this key their metadata does not go back."""

ONE_END = "one end 73662"
"""Under this key nobody uses the log right behind what they were told of."""

ORDERS = "orders of sets 168"
"""Under this key nobody changes what the logs of a set have, or takes a name of one."""

FORKS = "forks 10"
FORKS_BACK = "forks back 13"
"""Under this key nobody forks their log."""

UNPAGED_SEGMENTS = 64
"""Times that cannot be stay in pages: with so many segments to a page there are none."""

ENDS = ("close", "close", "abandon", "crash")


def draw(seed: int) -> Plan:
    """A few writers that race, a few readers, and a few kinds of trouble: where everything fails, nothing is learnt."""
    chance = Stream(key_of(seed, "logs"))
    writers = _some_once(seed, tuple(_writer(chance) for _ in range(1 + chance.below(4))))
    writers = _some_leading(seed, writers)
    nodes = [f"w{n}" for n in range(len(writers))]
    plan = Plan(
        seed,
        writers,
        tuple(_reader(chance) for _ in range(chance.below(4))),
        tuple(_event(chance, nodes) for _ in range(chance.choice((0, 1, 3, 6, 10)))),
        plans.Figures(loss=chance.choice((0.0, 0.0, 0.01, 0.05)), slow=chance.choice((0.0, 0.0, 0.05))),
        pace_seconds=chance.choice((0.001, 0.01, 0.1)),
        roll_records=chance.choice((1, 2, 5, 10, 1000)),
        roll_seconds=chance.choice((1.0, 5.0, 1000.0)),
        page_segments=chance.choice((1, 2, 4)),
    )
    plan = _away_at_first(plan, Stream(key_of(seed, "producers", "away")))
    plan = _kept(plan, Stream(key_of(seed, "logs", "keeping")))
    plan = _shared(plan, Stream(key_of(seed, "logs", "sharing")))
    plan = _clocked(plan, nodes, Stream(key_of(seed, CLOCKS)))
    plan = _failing_at_first(plan, Stream(key_of(seed, FAILS_AT_FIRST)))
    plan = _gone_back(plan, Stream(key_of(seed, GOING_BACK)))
    plan = _one_ended(plan, Stream(key_of(seed, ONE_END)))
    goes_back = any(isinstance(event, plans.GoesBack) for event in plan.events)
    if goes_back:
        return _forked(plan, Stream(key_of(seed, FORKS_BACK)), FORKS_BACK_SHARE)
    return _forked(plan, Stream(key_of(seed, FORKS)), FORKING_SHARE)


def _kept(plan: Plan, chance: Stream) -> Plan:
    """Some logs have a retention."""
    if not chance.happens(KEEPING_SHARE):
        return plan
    cursors = ("c0", "c1")[: chance.below(3)]
    keeping = plans.Keeping(
        age_seconds=chance.choice((None, 2.0, 8.0)),
        bytes=chance.choice((None, None, 100, 1000)),
        cursors=cursors,
        cursor_silent_seconds=chance.choice((None, 2.0, 5.0)) if cursors else None,
        consumers=tuple(
            plans.Consumer(
                _when(chance), name, chance.choice((0.0, 0.1, 1.0)), chance.choice((0.0, 4.0, 12.0))
            )
            for name in cursors
            if chance.happens(0.8)
        ),
        auditors=tuple(
            plans.Auditor(_when(chance), chance.choice((3.0, 10.0, 40.0))) for _ in range(1 + chance.below(3))
        ),
    )
    steps = [
        plans.BookieClockStep(_when(chance), chance.choice((-100.0, 100.0))) for _ in range(chance.below(2))
    ]
    return replace(plan, events=(*plan.events, *steps), keeping=keeping)


def _shared(plan: Plan, chance: Stream) -> Plan:
    """Beside some logs there is a set of others, in which a group shares what one program after the other writes."""
    if not chance.happens(SHARING_SHARE):
        return plan
    logs, writers = chance.choice((1, 1, 2)), tuple(_set_writer(chance) for _ in range(1 + chance.below(2)))
    members = tuple(_member(chance) for _ in range(1 + chance.below(3)))
    growths = tuple(
        plans.Growth(
            _soon_after(chance, chance.choice(writers).at), chance.choice((2, 3)) if logs == 1 else 2
        )
        for _ in range(chance.choice((0, 1, 1, 2)))
    )
    sharing = plans.Sharing(logs, writers, members, growths, "end" if chance.happens(0.2) else "beginning")
    sharing = replace(sharing, trouble=Stream(key_of(plan.seed, TROUBLES)).choice(plans.TROUBLES))
    sharing = _ordered(sharing, Stream(key_of(plan.seed, ORDERS)))
    own = [*(f"s{n}" for n in range(len(writers))), *(f"m{n}" for n in range(len(members)))]
    cuts = tuple(
        _cut(chance, _when(chance), chance.choice(own), chance.choice((0.5, 5.0, 8.0)))
        for _ in range(chance.below(4))
    )
    return replace(plan, events=(*plan.events, *cuts), sharing=sharing)


def _clocked(plan: Plan, writers: list[str], chance: Stream) -> Plan:
    """The clocks of some machines step, and bookies tell what time it is, in some plans not from the beginning."""
    if not chance.happens(CLOCKS_SHARE):
        return plan
    steps = tuple(
        plans.MachineClockStep(
            chance.choice((0.0, _when(chance))),
            chance.choice(writers),
            chance.choice((-1e6, -100.0, 100.0, 1e6)),
        )
        for _ in range(1 + chance.below(3))
    )
    clocks = plans.Clocks(chance.choice((0.0, 0.0, _when(chance))))
    pages = plan.page_segments if clocks.told_from == 0.0 else UNPAGED_SEGMENTS
    return replace(plan, events=(*plan.events, *steps), page_segments=pages, clocks=clocks)


def _failing_at_first(plan: Plan, chance: Stream) -> Plan:
    """In some plans ledgers fail while their writers take the log over."""
    if not chance.happens(FAILS_AT_FIRST_SHARE):
        return plan
    failures = tuple(
        plans.FailLedgers(one.at + plan.pace_seconds * chance.uniform(5.0, 25.0)) for one in plan.writers
    )
    return replace(plan, events=(*plan.events, *failures))


def _gone_back(plan: Plan, chance: Stream) -> Plan:
    """Some logs without retention, leaders and sets have metadata that goes back."""
    others = plan.keeping or plan.sharing or plan.clocks or any(one.leads for one in plan.writers)
    if others or not chance.happens(GOING_BACK_SHARE):
        return plan
    copy_seconds = chance.choice((0.5, 3.0, 10.0))
    event = plans.GoesBack(_when(chance) + copy_seconds, copy_seconds, chance.choice((0.5, 3.0, 10.0)))
    return replace(plan, events=(*plan.events, event))


def _ordered(sharing: plans.Sharing, chance: Stream) -> plans.Sharing:
    """In some sets what all logs have is changed, often before the set grows, and a name of a log to come is taken."""
    if not chance.happens(ORDERED_SHARE):
        return sharing
    until = chance.choice([one.at for one in sharing.growths] or [plans.FAULTY_SECONDS])
    orders = tuple(
        plans.SetOrder(
            until * chance.uniform(0.0, 1.5), chance.choice((None, 10**6, 10**7)), chance.happens(0.3)
        )
        for _ in range(1 + chance.below(3))
    )
    strangers = tuple(
        plans.Stranger(until * chance.unit(), chance.choice((1, 2, 3))) for _ in range(chance.below(2))
    )
    return replace(sharing, orders=orders, strangers=strangers)


def _one_ended(plan: Plan, chance: Stream) -> Plan:
    """In some plans programs use the log right behind what they were told of. Ends go back where metadata does."""
    goes_back = any(isinstance(event, plans.GoesBack) for event in plan.events)
    if goes_back or not chance.happens(ONE_END_SHARE):
        return plan
    return replace(plan, one_end=plans.OneEnd(chance.choice((0.1, 0.5)), chance.choice((0.0, 0.5))))


def _forked(plan: Plan, chance: Stream, share: float) -> Plan:
    """Some logs without a set are forked, and their forks, too."""
    if plan.sharing or not chance.happens(share):
        return plan
    orders = tuple(_fork_order(chance) for _ in range(1 + chance.below(5)))
    truncations = tuple(
        plans.Truncate(_soon_after(chance, one.at), chance.choice((0.3, 0.9)))
        for one in orders
        if chance.happens(0.5)
    )
    cuts = tuple(
        _cut(chance, _soon_after(chance, one.at), f"f{n}", chance.choice((0.5, 5.0)))
        for n, one in enumerate(orders)
        if chance.happens(0.3)
    )
    forking = plans.Forking(orders, chance.happens(0.5))
    return replace(plan, events=(*plan.events, *truncations, *cuts), forking=forking)


def _fork_order(chance: Stream) -> plans.ForkOrder:
    return plans.ForkOrder(
        _when(chance) + 2.0,
        of_fork=chance.happens(0.4),
        share=chance.choice((0.0, 0.3, 0.8, 1.0)),
        records=chance.choice((0, 1, 5)),
        gives_up=chance.choice((0.0, 0.0, 0.4, 1.0)),
        deletes=chance.happens(0.3),
        restores=chance.choice((None, None, 0.0, 0.5, 1.0)),
        dies_after=chance.choice((None, None, 1 + chance.below(40))),
    )


def _set_writer(chance: Stream) -> plans.SetWriter:
    return plans.SetWriter(_when(chance), chance.choice((3, 10, 20)), chance.choice((0.0, 0.1, 0.5)))


def _member(chance: Stream) -> plans.Member:
    stays, pause = chance.choice((2.0, 8.0, 30.0)), chance.choice((0.0, 0.1, 1.0))
    return plans.Member(_when(chance), stays, pause, chance.happens(0.4))


def _soon_after(chance: Stream, at: float) -> float:
    """Often while something that began at this time goes on."""
    return at + chance.unit() if chance.happens(0.5) else _when(chance)


def _writer(chance: Stream) -> plans.Writer:
    terms = tuple(_term(chance) for _ in range(1 + chance.below(3)))
    return plans.Writer(_when(chance), terms)


def _some_once(seed: int, writers: tuple[plans.Writer, ...]) -> tuple[plans.Writer, ...]:
    """In every third plan about half of the writers are producers."""
    chance = Stream(key_of(seed, "producers"))
    if not chance.happens(1 / 3):
        return writers
    some = [replace(one, once=chance.happens(0.5)) for one in writers]
    unsure = Stream(key_of(seed, "producers", "unsure"))
    return tuple(replace(one, unsure=unsure.choice((1, 1, 5, 1000))) if one.once else one for one in some)


def _away_at_first(plan: Plan, chance: Stream) -> Plan:
    """In some of these the metadata is away when the first of them has just taken the log over."""
    first = min((one.at for one in plan.writers if one.once), default=None)
    if first is None or not chance.happens(AWAY_SHARE):
        return plan
    away = plans.StoreAway(first + plan.pace_seconds * chance.below(20), chance.choice((5.0, 40.0)))
    return replace(plan, events=(*plan.events, away))


def _some_leading(seed: int, writers: tuple[plans.Writer, ...]) -> tuple[plans.Writer, ...]:
    """In some plans most of those that are no producers write only as leaders."""
    chance = Stream(key_of(seed, LEADERS))
    if not chance.happens(LEADING_SHARE):
        return writers
    return tuple(replace(one, leads=not one.once and chance.happens(0.8)) for one in writers)


def _term(chance: Stream) -> plans.Term:
    return plans.Term(
        batches=chance.choice((0, 1, 3, 10)),
        records=chance.choice((1, 1, 2, 7)),
        together=chance.choice((1, 3, 10)),
        pause=chance.choice((0.0, 0.02, 0.3, 2.0)),
        ends=chance.choice(ENDS),
    )


def _reader(chance: Stream) -> plans.Reader:
    return plans.Reader(_when(chance), chance.happens(0.3), chance.choice((0.5, 5.0, 20.0)))


def _when(chance: Stream) -> float:
    return plans.FAULTY_SECONDS * chance.unit() ** 2


def _event(chance: Stream, writers: list[str]) -> plans.Fault:
    at, writer = _when(chance), chance.choice(writers)
    seconds = chance.choice((0.5, 5.0, 20.0))
    match chance.below(14):
        case 0 | 1:
            return plans.Truncate(at, chance.choice((0.2, 0.7, 1.0)))
        case 2:
            return plans.Hold(at, seconds)
        case 3:
            return plans.Rename(at, chance.happens(0.5))
        case 4:
            return plans.Sweep(at)
        case 5 | 6:
            return plans.FailLedgers(at)
        case 7:
            return plans.NoBookies(at, seconds)
        case 8:
            return plans.RecoverAside(at)
        case 9:
            return plans.ClockStep(at, chance.choice((-20.0, -1.0, 20.0)))
        case 10:
            return plans.StoreAway(at, seconds=min(seconds, 5.0), applies=chance.happens(0.5))
        case _:
            return _cut(chance, at, writer, seconds)


def _cut(chance: Stream, at: float, node: str, seconds: float) -> plans.Cut:
    other = chance.choice((plans.LEDGERS, METADATA))
    return plans.Cut(
        at,
        (node,),
        (other,),
        seconds=seconds,
        both_ways=chance.happens(0.5),
        holds=chance.happens(0.5),
    )
