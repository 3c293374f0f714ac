"""A seed becomes a plan: which steps come, how often, and which faults come together.

Each seed leaves out some kinds of steps and prefers others, so that the rest comes closer together.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .plan import (
    CRASHES,
    ROTS,
    Adopt,
    Append,
    Change,
    Checkpoint,
    Close,
    Collect,
    Compact,
    Crash,
    Delete,
    FailSync,
    Fence,
    Lie,
    LoseIndex,
    LosePlace,
    LoseSegment,
    Move,
    OlderCopy,
    PeersFail,
    Plan,
    Read,
    RebuildIndex,
    Recovering,
    Repair,
    Restart,
    Rot,
    Scrub,
    Sizes,
    Step,
    StoreFails,
    Unlist,
)

LEDGERS_MAX = 6
STEPS_MIN, STEPS_MAX = 12, 45
ENTRIES_MAX = 24
OPERATIONS_MAX = 60
"""A step seldom changes the disk more often."""

RACES = 4

LEFT_OUT = 0.25
"""How often a kind of step does not come at all."""


def draw(seed: int) -> Plan:
    """The plan of this seed; the same wherever and whenever it is drawn."""
    random = Random(seed)
    return Plan(seed, _sizes(random), _Steps(random).drawn())


def draw_race(seed: int) -> Plan:
    """Reads while the log is compacted, and nothing else: a race that other plans seldom run."""
    random = Random(seed)
    sizes, steps = _sizes(random), _Steps(random)
    return Plan(seed, sizes, tuple(step for _ in range(RACES) for step in steps.reads_while_compacting()))


def _sizes(random: Random) -> Sizes:
    return Sizes(
        segment=random.choice((900, 1500, 3000, 6000)),
        group=random.choice((400, 600, 2000)),
        step=random.choice((200, 400, 1000)),
        batch=random.choice((150, 300, 1000)),
        states=random.choice((1, 4, 100)),
        few=random.choice((1, 2, 5)),
        payload=random.choice((8, 20, 60)),
        overtaken=random.choice((0.05, 0.2, 0.6)),
    )


class _Steps:
    """The steps of one plan, one after the other."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._ledgers = random.randint(1, LEDGERS_MAX)
        self._beside = random.choice((0.0, 0.3, 0.7))

    def drawn(self) -> tuple[Step, ...]:
        random = self._random
        kinds = self._kinds()
        names = [kind for kind in kinds if kind[1] > 1 or random.random() > LEFT_OUT]
        weights = [kind[1] * random.choice((0.3, 1, 1, 3)) for kind in names]
        steps: list[Step] = []
        for make, _ in random.choices(names, weights, k=random.randint(STEPS_MIN, STEPS_MAX)):
            steps += make()
        return tuple(steps)

    def _kinds(self) -> list[tuple[Callable[[], list[Step]], float]]:
        """(what makes one, how often it comes). Whatever comes often is never left out."""
        return [
            (self._append, 20),
            (self._burst, 4),
            (lambda: [Fence(self._ledger(), self._is_beside())], 1),
            (lambda: [Read(self._ledger(), self._entry(), beside=self._is_beside())], 1),
            (lambda: [Change(self._ledger())], 0.7),
            (self._recovery, 0.7),
            (lambda: [Close(self._ledger())], 1.2),
            (lambda: [Close(ledger := self._ledger()), Move(ledger)], 0.4),
            (self._elsewhere, 0.6),
            (lambda: [Delete(self._ledger())], 0.8),
            (lambda: [Unlist(self._ledger())], 0.2),
            (lambda: [StoreFails(self._random.randrange(6))], 0.3),
            (lambda: [Lie(self._ledger()), Collect()], 0.3),
            (lambda: [Collect(self._random.random() < 0.7, self._is_beside())], 2),
            (lambda: [Compact(self._random.choice((0.0, 0.3, 0.9, 1.1)), self._is_beside())], 4),
            (lambda: [Checkpoint(self._is_beside())], 1.5),
            (lambda: [Scrub(self._is_beside())], 1),
            (lambda: [Repair(self._is_beside())], 0.8),
            (lambda: [Adopt(f"b{self._random.randint(1, 5)}", self._is_beside())], 0.8),
            (self._crash, 3),
            (self._crash_in_upkeep, 3),
            (lambda: [FailSync(self._random.randrange(10))], 0.4),
            (self._rot, 1),
            (lambda: [LosePlace(self._random.randrange(100))], 0.2),
            (self.reads_while_compacting, 0.5),
            (self._fence_while_compacting, 0.3),
            (self._rot_of_a_copy, 0.4),
            (lambda: [PeersFail(self._random.randint(1, 4))], 0.3),
            (lambda: [Restart(self._is_clean())], 0.7),
            (lambda: [LoseIndex(self._is_clean())], 0.6),
            (lambda: [RebuildIndex(self._is_clean())], 0.5),
            (lambda: [OlderCopy(self._is_clean())], 0.4),
            (lambda: [LoseSegment(self._random.randrange(50))], 0.2),
        ]

    def _ledger(self) -> int:
        return self._random.randrange(self._ledgers)

    def _entry(self) -> int:
        return self._random.randrange(ENTRIES_MAX)

    def _is_beside(self) -> bool:
        return self._random.random() < self._beside

    def _is_clean(self) -> bool:
        return self._random.random() < 0.5

    def _append(self) -> list[Step]:
        random = self._random
        if random.random() < 0.05:
            return [Append(self._ledger(), 0, 0, lac=True, beside=self._is_beside())]
        return [
            Append(
                self._ledger(),
                self._entry(),
                random.randint(1, 5),
                lac=random.random() < 0.3,
                deferred=random.random() < 0.1,
                beside=self._is_beside(),
            )
        ]

    def _burst(self) -> list[Step]:
        """A writer at work: entries in order."""
        ledger, first = self._ledger(), self._random.randrange(4)
        return [
            Append(ledger, n, 2, beside=self._random.random() < 0.8)
            for n in range(first, first + self._random.randint(4, 12), 2)
        ]

    def reads_while_compacting(self) -> list[Step]:
        ledger = self._ledger()
        frames: list[Step] = [Append(ledger, n, 2) for n in range(0, 12, 2)]
        reads: list[Step] = [Read(ledger, bytes_max=4000, beside=True) for _ in range(10)]
        return [*frames, Checkpoint(), Compact(1.1, beside=True), *reads]

    def _fence_while_compacting(self) -> list[Step]:
        """States are written anew while fences are on their way."""
        random = self._random
        some = random.sample(range(self._ledgers), random.randint(1, min(3, self._ledgers)))
        held: list[Step] = [Append(n, 0, 3) for n in some]
        known: list[Step] = [Append(n, 0, 0, lac=True) for n in some]
        fences: list[Step] = [Fence(n, beside=True) for n in some]
        crash: list[Step] = [Crash(random.randrange(16), "kill")] if random.random() < 0.3 else []
        return [*held, *known, Restart(), *crash, Compact(1.1, beside=True), Checkpoint(), *fences, *fences]

    def _rot_of_a_copy(self) -> list[Step]:
        """The same frame twice, one of them rots, and then both are moved."""
        ledger, first = self._ledger(), self._random.randrange(6)
        again: list[Step] = [Append(ledger, first, 3)]
        if self._random.random() < 0.7:
            again.append(Restart())
        return [*again, *again, Checkpoint(), Rot(-1 - self._random.randrange(6)), Compact(1.1)]

    def _elsewhere(self) -> list[Step]:
        """A closed ledger is moved away; it is dropped here, or taken over again, perhaps not at once."""
        random, ledger = self._random, self._ledger()
        frames: list[Step] = [Append(ledger, n, 3) for n in range(0, 9, 3)]
        crash: list[Step] = (
            [Crash(random.randrange(16), random.choice(CRASHES))] if random.random() < 0.6 else []
        )
        chores: list[Step] = [Collect(), *(Adopt(f"b{n}") for n in range(1, 5))]
        return [*frames, Close(ledger), Move(ledger), *crash, *random.sample(chores, random.randint(1, 5))]

    def _recovery(self) -> list[Step]:
        ledger, first = self._ledger(), self._entry()
        frames: list[Step] = [Append(ledger, first + n, 3, recovery=True) for n in range(0, 6, 3)]
        between: list[list[Step]] = [[], [], [], [Collect()], [Compact()], [Checkpoint()]]
        return [Change(ledger), Recovering(ledger), *frames, *self._random.choice(between), Close(ledger)]

    def _crash(self) -> list[Step]:
        random = self._random
        again = random.randrange(8) if random.random() < 0.3 else None
        return [Crash(random.randrange(OPERATIONS_MAX), random.choice(CRASHES), again)]

    def _crash_in_upkeep(self) -> list[Step]:
        """The power goes in the middle of something, and then it is done again."""
        random = self._random
        adopt = Adopt(f"b{random.randint(1, 5)}")
        chores: list[Step] = [Collect(), Compact(), Compact(1.1), Scrub(), Repair(), adopt]
        starts: list[Step] = [OlderCopy(), RebuildIndex(), LoseIndex()]
        chore, start = random.choice(chores), random.sample(starts, random.random() < 0.2)
        crash = Crash(random.randrange(14), random.choice(CRASHES))
        return [crash, *start, chore, *([chore] if random.random() < 0.5 else [])]

    def _rot(self) -> list[Step]:
        random = self._random
        rot = Rot(random.randrange(200), random.choice(ROTS))
        then: list[list[Step]] = [[], [Compact(1.1)], [Scrub()], [LoseIndex()], [Scrub(), LoseIndex(False)]]
        return [rot, *random.choice(then)]
