"""A seed becomes a plan: a form, writers that come close together, and the faults that go with a theme.

In half of the plans acceptors are brought up to date with each other, and lost and replaced.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import plan as plans
from .plan import Plan

KINDS = (
    "GetJournalState",
    "NewEpoch",
    "PrepareRecovery",
    "AcceptRecovery",
    "FinalizeLogSegment",
    "StartLogSegment",
    "SendEdits",
    "PurgeLogs",
)
"""Messages that a fault may single out; their answers too."""

SYNCED = 0.5
"""Share of the seeds in which acceptors are brought up to date, and some lost and replaced."""

PARTIAL = 0.5
"""Share of the seeds in which writers come one after the other, and reach few acceptors with some of their calls."""

MEETS = 0.3
"""How often a kind of a writer's calls reaches no quorum, so that its life ends there."""

LIFE_SECONDS = {plans.ONE: 18.0, "within": 24.0, plans.DAEMONS: 36.0}
"""About how long a writer takes to become one and to write a little."""


def draw(seed: int) -> Plan:
    """The plan of this seed; the same wherever and whenever it is drawn."""
    random = Random(seed)
    plan = _Partial(random).plan(seed) if random.random() < PARTIAL else _Drawn(random).plan(seed)
    return _synced(plan) if Random(f"lost up to date {seed}").random() < SYNCED else plan


def _synced(plan: Plan) -> Plan:
    """With operators; what else the plan has is drawn as without them."""
    random = Random(f"sync {plan.seed}")
    syncs = tuple(_sync(random, plan) for _ in range(random.choice((1, 1, 2, 3))))
    crashes = [plans.Crash(f"s{n}", _at(random, plan)) for n in range(len(syncs)) if random.random() < 0.3]
    replaced: tuple[plans.Replace, ...] = ()
    if plan.form != plans.ONE and random.random() < 0.5:
        times = sorted(_at(random, plan) for _ in range(random.choice((1, 1, 2, 3))))
        replaced = tuple(plans.Replace(at, random.randrange(plan.acceptors)) for at in times)
    return replace(plan, syncs=syncs, replaced=replaced, faults=(*plan.faults, *crashes))


def _sync(random: Random, plan: Plan) -> plans.Sync:
    return plans.Sync(_at(random, plan), random.randrange(1, 6), random.choice((0.5, 4.0, 12.0)))


def _at(random: Random, plan: Plan) -> float:
    return round(random.uniform(0, plan.heals_at), 2)


class _Drawn:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.form = random.choices(plans.FORMS, (2, 3, 6))[0]
        self.acceptors = 1 if self.form == plans.ONE else random.choices((3, 5), (7, 1))[0]
        self.writers = self._writers()
        self.heals_at = self.writers[-1].at + LIFE_SECONDS[self.form] * random.uniform(0.5, 1.5)

    def plan(self, seed: int) -> Plan:
        random = self.random
        readers = tuple(self._reader() for _ in range(random.choices((0, 1, 2), (4, 4, 1))[0]))
        figures = self._figures()
        faults = tuple(self._fault() for _ in range(random.randrange(6)))
        admin = random.choice(plans.ADMIN) if random.random() < 0.15 else ""
        return Plan(
            seed,
            self.form,
            self.acceptors,
            self.writers,
            readers,
            faults,
            figures,
            self.heals_at,
            admin,
        )

    def _writers(self) -> tuple[plans.Writer, ...]:
        random, writers, at = self.random, [], 0.0
        closeness = random.choice((0.3, 0.7, 1.0, 1.3))
        for _ in range(random.choices((1, 2, 3, 4, 5), (1, 6, 5, 2, 1))[0]):
            writers.append(self._writer(round(at, 1)))
            at += LIFE_SECONDS[self.form] * closeness * random.uniform(0.2, 1.8)
        return tuple(writers)

    def _writer(self, at: float) -> plans.Writer:
        random = self.random
        few = random.choices((1, 2, 3, 4), (6, 4, 1, 1))[0]
        segments = tuple(
            tuple(random.choice((1, 1, 2, 3)) for _ in range(random.choice((1, 1, 2, 3)))) for _ in range(few)
        )
        return plans.Writer(
            at,
            segments,
            depth=random.choice((1, 1, 2, 4)),
            attempts=random.choice((1, 1, 2, 3)),
            think=random.choice((0.0, 0.0, 1.0, 4.0)),
            purges=random.random() < 0.2,
            leaves_open=random.random() < 0.4,
        )

    def _reader(self) -> plans.Reader:
        random = self.random
        return plans.Reader(
            at=round(random.uniform(0, self.heals_at), 1),
            looks=random.randrange(1, 5),
            every=random.choice((2.0, 6.0, 15.0)),
            tails=random.random() < 0.5,
        )

    def _figures(self) -> plans.Figures:
        random = self.random
        remote = self.form == plans.DAEMONS
        return plans.Figures(
            loss=random.choice((0.0, 0.02, 0.08, 0.2)) if remote else 0.0,
            late=random.choice((0.0, 0.0, 0.03, 0.1)) if remote else 0.0,
            twice=random.choice((0.0, 0.0, 0.05)) if remote else 0.0,
            fails=random.choice((0.0, 0.0, 0.0, 0.02)),
            unknown=random.choice((0.0, 0.0, 0.02, 0.06)),
            slow=random.choice((0.0, 0.0, 0.03, 0.1)),
            cache=random.choice((30, 100, 400)),
            queue=random.choices((10_000, 60), (7, 1))[0],
        )

    # --- faults -----------------------------------------------------------------------------------------

    def _fault(self) -> plans.Fault:
        kinds = [self._crash, self._pause]
        if self.form == plans.DAEMONS:
            kinds += [self._cut, self._cut, self._tamper]
        return self.random.choice(kinds)()

    def _host(self) -> str:
        hosts = [f"w{n}" for n in range(len(self.writers))]
        if self.form == plans.DAEMONS:
            hosts += [f"a{n}" for n in range(self.acceptors)]
        return self.random.choice(hosts)

    def _at(self) -> float:
        return round(self.random.uniform(0, self.heals_at), 2)

    def _crash(self) -> plans.Fault:
        return plans.Crash(self._host(), self._at(), self.random.choice((1.0, 5.0, 30.0)))

    def _pause(self) -> plans.Fault:
        return plans.Pause(self._host(), self._at(), self.random.choice((5.0, 20.0, 60.0)))

    def _cut(self) -> plans.Fault:
        random = self.random
        ends = [f"w{random.randrange(len(self.writers))}", f"a{random.randrange(self.acceptors)}"]
        if random.random() < 0.3:
            ends.reverse()
        if random.random() < 0.3:
            ends[ends.index(next(e for e in ends if e.startswith("w")))] = ""
        kind = random.choice(KINDS) if random.random() < 0.5 else ""
        if kind and ends[1][:1] != "a":
            kind += " reply"
        return plans.Cut(ends[0], ends[1], self._at(), random.choice((10.0, 40.0, 200.0)), kind)

    def _tamper(self) -> plans.Fault:
        random = self.random
        writer, acceptor = f"w{random.randrange(len(self.writers))}", f"a{random.randrange(self.acceptors)}"
        how = random.choice((plans.TWICE, plans.LATE))
        return plans.Tamper(random.choice(KINDS), writer, acceptor, random.choice((1, 1, 2, 3)), how)


class _Partial:
    """What recoveries are there for: writers that get half-way at one acceptor or another, and then no further."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def plan(self, seed: int) -> Plan:
        random, writers, faults, at = self.random, [], [], 0.0
        acceptors = random.choices((3, 5), (12, 1))[0]
        for n in range(random.choices((2, 3, 4, 5), (3, 4, 3, 1))[0]):
            sizes = tuple(random.choice((1, 1, 2)) for _ in range(random.choice((1, 2, 2))))
            segments = random.choices(((sizes,), (sizes, (1,))), (4, 1))[0]
            think = random.choice((0.0, 0.0, 8.0))
            writers.append(plans.Writer(at, segments, depth=random.choice((1, 2)), think=think))
            faults += self._missed(n, at, acceptors)
            at += round(random.choice((0.6, 1.0, 1.3)) * LIFE_SECONDS[plans.DAEMONS], 1)
        readers = tuple(
            plans.Reader(
                round(random.uniform(0, at), 1), 4, random.choice((2.0, 8.0)), tails=random.random() < 0.5
            )
            for _ in range(random.choice((0, 1, 2)))
        )
        figures = plans.Figures(slow=random.choice((0.0, 0.0, 0.05)), cache=random.choice((30, 400)))
        return Plan(seed, plans.DAEMONS, acceptors, tuple(writers), readers, tuple(faults), figures, at)

    def _missed(self, n: int, at: float, acceptors: int) -> list[plans.Fault]:
        """Calls of one writer that never arrive, or arrive late, or twice."""
        random = self.random
        faults: list[plans.Fault] = []
        names = [f"a{m}" for m in range(acceptors)]
        random.shuffle(names)
        minority = acceptors // 2
        long = 3 * LIFE_SECONDS[plans.DAEMONS]
        if random.random() < 0.6:
            faults += [plans.Cut(f"w{n}", name, at, long) for name in names[:minority]]
        for kind in KINDS[3:7]:
            if random.random() < MEETS:
                reached = random.randrange(minority + 1)
                faults += [plans.Cut(f"w{n}", name, at, long, kind) for name in names[: acceptors - reached]]
        if random.random() < 0.2:
            how = random.choice((plans.TWICE, plans.LATE))
            faults.append(plans.Tamper(random.choice(KINDS[2:7]), f"w{n}", names[-1], 1, how))
        if random.random() < 0.2:
            faults.append(
                plans.Crash(names[-1], round(at + random.uniform(0, LIFE_SECONDS[plans.DAEMONS]), 2), 3.0)
            )
        return faults
