"""Plans from seeds: a few users, a few kinds of faults, at most as much damage as the cluster must survive."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.cores.plans.plan import (
    METADATA,
    Cut,
    Fault,
    Figures,
    LeaseLost,
    Pause,
    Rule,
    StoreAway,
    WatchGap,
)
from tests.simulation.engine.chance import Stream, key_of

from . import plan as plans
from .faults import newer_keys
from .plan import Plan, User

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
"""Messages that rules make late or lose."""

SHAPES = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (3, 3, 3), (2, 2, 1), (1, 1, 1), (5, 3, 2))
HOSTS_MAX = 6
FAULTY_SECONDS = 35.0
"""Faults begin within this time."""

OFFLOADING = "offloading 61"
"""Under this key the seeds that are known to find planted bugs have no object store."""
OFFLOADING_SHARE = 0.2

PACES_SECONDS = (0.001, 0.01, 0.1)
SLOWNESS = (1.0, 1.0, 20.0, 100.0)
SECONDS = (0.5, 5.0, 20.0)


def draw(seed: int) -> Plan:
    """The plan of this seed."""
    return _Draw(seed).plan()


class _Draw:
    """One plan's. `victims` are the hosts that may lose copies for good."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Stream(key_of(seed, "plan"))
        self.shape = self.chance.choice(SHAPES)
        ensemble_size, _, ack_quorum = self.shape
        hosts = min(HOSTS_MAX, ensemble_size + self.chance.below(3))
        self.hosts = [f"b{n}" for n in range(hosts)]
        first = self.chance.below(hosts)
        self.victims = [self.hosts[(first + n) % hosts] for n in range(ack_quorum - 1)]
        self.users: list[User] = []

    def plan(self) -> Plan:
        chance, apart = self.chance, Stream(key_of(self.seed, "apart"))
        self._draw_users()
        nodes = [*self.hosts, *(user.name for user in self.users), METADATA]
        return Plan(
            seed=self.seed,
            shape=self.shape,
            hosts=len(self.hosts),
            pace=chance.choice(PACES_SECONDS),
            overtaken=chance.choice((0.0, 0.05, 0.3)),
            cancels=chance.choice((0.0, 0.0, 0.05, 0.3)),
            has_password=chance.happens(0.2),
            has_big_entries=apart.happens(0.05),
            recover_at=round(apart.uniform(1, 30), 2) if apart.happens(0.2) else None,
            figures=Figures(
                loss=chance.choice((0.0, 0.0, 0.01, 0.05)),
                slow=chance.choice((0.0, 0.0, 0.05)),
                sync_seconds=chance.choice(SLOWNESS),
            ),
            users=(*self.users, *self._offloading()),
            rules=tuple(self._rule(nodes) for _ in range(chance.choice((0, 0, 1, 3)))),
            faults=tuple(sorted(self._all_faults(nodes, apart), key=lambda fault: fault.at)),
        )

    # --- users ------------------------------------------------------------------------------------

    def _draw_users(self) -> None:
        chance = self.chance
        if chance.happens(0.3):
            self._draw_journal()
        for n in range(chance.below(2) if self.users else 1 + chance.below(3)):
            does = chance.choice(
                ("writes", "writes", "writes deferred", "writes advanced", "writes blocking")
            )
            self._add(f"w{n}", does)
            for m in range(chance.below(3)):
                does = chance.choice(
                    ("follows", "follows blocking", "recovers", "recovers", "looks", "deletes")
                )
                if does != "deletes" or chance.happens(0.3):
                    self._add(f"{does[0]}{n}{m}", does, f"w{n}")

    def _offloading(self) -> list[User]:
        """Programs that move ledgers to an object store, and back; drawn apart."""
        chance, found = Stream(key_of(self.seed, OFFLOADING)), list[User]()
        for user in self.users:
            if (
                user.does.startswith("writes")
                and "journal" not in user.does
                and chance.happens(OFFLOADING_SHARE)
            ):
                for _ in range(1 + chance.below(2)):
                    name = f"o{len(found)}"
                    found.append(User(name, "offloads", user.name, round(chance.unit() * 20, 2)))
        return found

    def _draw_journal(self) -> None:
        chance = self.chance
        where = " at three" if chance.happens(0.4) else ""
        for n in range(1 + chance.below(2)):
            self._add(f"j{n}", f"writes journal{where}")
        if chance.happens(0.6):
            self._add("s0", f"reads journal{where}")

    def _add(self, name: str, does: str, of: str = "") -> None:
        at = self.chance.unit() ** 2 * 20 if self.chance.happens(0.5) else 0.0
        self.users.append(User(name, does, of, round(at, 2)))

    # --- what goes wrong --------------------------------------------------------------------------

    def _rule(self, nodes: list[str]) -> Rule:
        chance = self.chance
        ends = {chance.choice(("source", "target")): chance.choice((*nodes, ""))}
        return Rule(
            kind=chance.choice(KINDS),
            late=chance.happens(0.5),
            probability=chance.choice((0.3, 0.7, 1.0)),
            at=self._time(),
            seconds=chance.choice((2.0, 10.0, 40.0)),
            **ends,
        )

    def _all_faults(self, nodes: list[str], apart: Stream) -> list[Fault]:
        return [*self._faults(nodes), *self._orders(), *self._closed(apart)]

    def _faults(self, nodes: list[str]) -> list[Fault]:
        """Of a few kinds only: runs in which everything fails teach little. Some come two and three at once."""
        kinds: list[Callable[[float], Fault]] = [self._kind() for _ in range(1 + self.chance.below(4))]
        found: list[Fault] = []
        for _ in range(self.chance.choice((0, 1, 2, 4, 8))):
            at = self._time()
            for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
                found.append(self.chance.choice(kinds)(round(at, 2)))
                at += self.chance.unit() ** 3
        if self.chance.happens(0.2):
            found += self._rolling_restart()
        if self.chance.happens(0.08):
            at, host = self._time(), self._host()
            found += [plans.SyncFails(at, host), plans.Stop(at + 0.01, host)]  # the very last sync
        if self.chance.happens(0.05):
            found.append(plans.NewerRecord(self._time(), self.chance.choice(newer_keys(self.seed))))
        return found

    def _orders(self) -> list[Fault]:
        """What operators order, drawn apart: all else stays as it is."""
        chance, found = Stream(key_of(self.seed, "orders")), list[Fault]()
        if chance.happens(0.15):
            at = round(chance.unit() * FAULTY_SECONDS, 2)
            found.append(plans.Drained(at, chance.choice(self.hosts), chance.choice((1.0, 10.0))))
        for _ in range(chance.below(3) if chance.happens(0.4) else 0):
            found.append(plans.Moved(round(chance.unit() * FAULTY_SECONDS, 2), chance.below(60)))
        return found

    def _closed(self, chance: Stream) -> list[Fault]:
        """Clients that are closed in the middle."""
        names = [user.name for user in self.users if chance.happens(0.05)]
        return [plans.Leaves(round(chance.unit() * FAULTY_SECONDS, 2), name, in_order=True) for name in names]

    def _kind(self) -> Callable[[float], Fault]:
        """What makes one of a kind: of those that damage something for good, or of the others."""
        chance, host, user, seconds = self.chance, self._host, self._user, self._seconds
        kinds: list[Callable[[float], Fault]] = [
            lambda at: plans.Kill(at, host(), seconds()),
            lambda at: plans.Stop(at, host(), seconds()),
            self._power_cut,
            self._power_cut,
            lambda at: Pause(at, chance.choice((*self.hosts, user())), seconds()),
            self._cut,
            lambda at: StoreAway(at, seconds=chance.choice((3.0, 10.0)), applies=chance.happens(0.5)),
            lambda at: LeaseLost(at, host()),
            lambda at: plans.KeyLost(at, host()),
            lambda at: WatchGap(at, user(), seconds=seconds()),
            lambda at: plans.DiskFull(at, host(), chance.choice((0, 500, 6000)), seconds()),
            lambda at: plans.DiskSlow(at, host(), chance.choice((30.0, 1000.0, 30_000.0)), seconds()),
            lambda at: plans.SyncFails(at, host(), chance.below(4)),
            lambda at: plans.ReadsFail(at, host(), seconds()),
            lambda at: plans.Maintained(at, host(), chance.choice(("COLLECT", "SCRUB", "REPAIR"))),
            lambda at: plans.Leaves(at, user()),
            self._exchanged,
            self._exchanged,
        ]
        damages: list[Callable[[float], Fault]] = [
            lambda at: plans.Rots(at, self._victim(), chance.below(1000)),
            lambda at: plans.DiskLost(at, self._victim(), seconds()),
            lambda at: plans.DiskRestored(at, self._victim(), chance.choice((1.0, 5.0, 20.0))),
        ]
        return chance.choice(damages if self.victims and chance.happens(0.25) else kinds)

    def _rolling_restart(self) -> list[Fault]:
        at, gap = self._time(), self.chance.choice((1.0, 4.0, 10.0))
        return [plans.Stop(round(at + n * gap, 2), host, 1.0) for n, host in enumerate(self.hosts)]

    def _power_cut(self, at: float) -> Fault:
        operation = int(self.chance.unit() ** 2 * 40)
        return plans.PowerCut(at, self._host(), operation, self._seconds(), self.chance.choice(plans.LOSSES))

    def _cut(self, at: float) -> Fault:
        one = self.chance.choice((*self.hosts, self._user()))
        other = self.chance.choice((self._user(), self._host(), METADATA))
        return Cut(at, (one,), (other,), seconds=self._seconds(), both_ways=self.chance.happens(0.5))

    def _exchanged(self, at: float) -> Fault:
        host, other = self._host(), self._host()
        return plans.DisksExchanged(at, host, other) if host != other else plans.Kill(at, host)

    def _time(self) -> float:
        return round(self.chance.uniform(0, FAULTY_SECONDS), 2)

    def _seconds(self) -> float:
        return self.chance.choice(SECONDS)

    def _host(self) -> str:
        return self.chance.choice(self.hosts)

    def _victim(self) -> str:
        return self.chance.choice(self.victims)

    def _user(self) -> str:
        return self.chance.choice(self.users).name
