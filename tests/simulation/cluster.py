"""One seed, one run: a writer and its recoverers over a few bookies, everything that can go wrong, then calm.

run_seed(7)                    raises Violation or Stuck where a promise was broken
run_seed(7).trace              what happened, line by line
"""

from __future__ import annotations

from dataclasses import dataclass

from ledgers.digest import Crc32cDigester
from metadata.ledger_record import BookieRef, Fragment, LedgerRecord, Shape

from .checks import Checker, Violation
from .clients import Recoverer, Writer
from .process import Client, Site
from .servers import SimulatedBookie, SimulatedMetadata
from .world import METADATA, Network, Stuck, World

LEDGER = 7
SHAPES = [
    Shape(*sizes)
    for sizes in (
        (3, 3, 2),
        (3, 2, 2),
        (4, 3, 2),
        (5, 3, 2),
        (5, 3, 3),
        (2, 2, 1),
        (4, 2, 2),
        (3, 3, 3),
    )
]
BOOKIES_MAX = 7
CALM_SECONDS = 250.0
LAST_RECOVERY_TRIES = 30


@dataclass(frozen=True, slots=True)
class Run:
    """What one seed led to."""

    seed: int
    shape: Shape
    trace_hash: str
    trace: tuple[str, ...]
    events: int
    confirmed: int
    changes: int
    last_entry: int


class Failed(AssertionError):
    """A seed broke a promise; the message says how to see it again."""

    def __init__(self, seed: int, why: BaseException, trace: list[str]) -> None:
        super().__init__(f"seed {seed}: {why!r}\n" + "\n".join(trace[-60:]))
        self.seed = seed
        self.trace = tuple(trace)


class Cluster:
    """A simulated cluster, wired and with its faults planned."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        rng = world.rng
        self.shape = rng.choice(SHAPES)
        size = self.shape.ensemble_size
        refs = [BookieRef(f"b{n}", f"i{n}") for n in range(rng.randint(max(4, size), BOOKIES_MAX))]
        first = LedgerRecord(LEDGER, self.shape, (Fragment(0, tuple(refs[:size])),))
        self.checker = Checker(first)
        self.network = Network(world, [str(ref) for ref in refs] + [METADATA, "writer", "r0", "r1", "r2"])
        self.metadata = SimulatedMetadata(world, self.network, self.checker, first)
        self.bookies = {ref: SimulatedBookie(world, ref, self.checker) for ref in refs}
        digester = Crc32cDigester(LEDGER)
        self.site = Site(world, self.network, self.checker, self.metadata, self.bookies, digester)
        self.writer = Writer(self.site, self.metadata.stands)
        self.recoverers = [Recoverer(self.site, f"r{n}", tries=3) for n in range(rng.randint(1, 3))]

    def run(self) -> None:
        """All of it, until nothing is left to happen; then the ledger must be closed."""
        self.writer.begin()
        for recoverer in self.recoverers:
            self.world.after(self.world.rng.uniform(15, 150), recoverer.begin)
        self._plan_faults()
        self.world.after(CALM_SECONDS, self._calm)
        self.world.run()
        if not self.metadata.stands.record.is_closed:
            raise Stuck("the ledger was not closed though everything works")

    @property
    def _clients(self) -> list[Client]:
        return [self.writer, *self.recoverers]

    def _plan_faults(self) -> None:
        rng, world = self.world.rng, self.world
        for _ in range(rng.choice((0, 1, 3, 6))):
            bookie = rng.choice(list(self.bookies.values()))
            at = rng.uniform(0, 150)
            world.after(at, bookie.crash)
            world.after(at + rng.choice((0.1, 20.0, 100.0)), bookie.restart)
        for _ in range(rng.choice((0, 1, 4, 10))):
            client, bookie = rng.choice(self._clients), rng.choice(list(self.bookies.values()))
            ends = [(client.name, str(bookie.ref)), (str(bookie.ref), client.name)]
            for source, target in rng.choice((ends, ends[:1], ends[1:])):
                self._cut_later(source, target)
        for client in self._clients:
            if world.happens(0.2):
                world.after(rng.uniform(0, 100), lambda c=client: c.pause(30.0))  # type: ignore[misc]
        doomed = rng.choice((None, None, *self._clients))
        if doomed is not None:
            world.after(rng.uniform(10, 120), lambda: setattr(doomed, "is_dead", True))

    def _cut_later(self, source: str, target: str) -> None:
        at, seconds = self.world.rng.uniform(0, 120), self.world.rng.choice((10.0, 60.0))
        self.world.after(at, lambda: self.network.cut(source, target, seconds))

    def _calm(self) -> None:
        """Everything works from here on, and one more client wants the ledger closed."""
        self.world.note("calm")
        self.network.calm()
        for bookie in self.bookies.values():
            bookie.restart()
            bookie.is_flaky = False
        for client in self._clients:
            client.wake()
        self.world.after(30.0, Recoverer(self.site, "last", LAST_RECOVERY_TRIES).begin)


def run_seed(seed: int) -> Run:
    """One whole run. Raises Failed with the seed and the end of its trace."""
    cluster = Cluster(seed)
    try:
        cluster.run()
    except (AssertionError, ValueError, KeyError, IndexError) as why:
        raise Failed(seed, why, cluster.world.trace) from why
    record = cluster.metadata.stands.record
    assert record.last_entry is not None
    return Run(
        seed,
        cluster.shape,
        cluster.world.trace_hash,
        tuple(cluster.world.trace),
        cluster.world.events,
        cluster.checker.confirmed_through + 1,
        cluster.metadata.stands.version,
        record.last_entry,
    )


__all__ = ["Failed", "Run", "Violation", "run_seed"]
