"""Placement policy: spreads copies over fault domains, then hosts, and weights bookies by free space. Pure functions.

The same policy applies to every choice of bookies: new ledgers, ensemble changes, re-replication, rebalancing. All
bookies without a fault domain count as one domain.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations
from typing import TypeVar

from .records.ledger_record import BookieRef
from .records.registration import Registration

T = TypeVar("T")

Rank = tuple[int, int]
"""Number of other copies in a bookie's fault domain, and on its host; lower is better."""


def host_of(registration: Registration) -> str:
    return registration.address.rsplit(":", 1)[0]


def rank(candidate: Registration, beside: Iterable[Registration]) -> Rank:
    """Returns the candidate's rank, given the copies in `beside`."""
    return _Copies(beside).rank(candidate)


def best(candidates: Iterable[Registration], beside: Iterable[Registration]) -> list[Registration]:
    """Returns the candidates with the lowest rank, given the copies in `beside`."""
    copies = _Copies(beside)
    ranked = [(copies.rank(candidate), candidate) for candidate in candidates]
    lowest = min((one for one, _ in ranked), default=None)
    return [candidate for one, candidate in ranked if one == lowest]


def choose(
    candidates: Iterable[Registration],
    count: int,
    *,
    beside: Iterable[Registration] = (),
    avoid: Collection[BookieRef] = (),
    near: BookieRef | None = None,
    rng: random.Random,
) -> list[Registration]:
    """Chooses up to `count` bookies to add to those in `beside`, on as many fault domains, then hosts, as possible.

    Bookies in `avoid` (which failed recently) are chosen only if no others are left. Among bookies of equal rank,
    `near`, which is close to the caller, is chosen first, and others at random, weighted by free space. Returns fewer
    than `count` if there are too few candidates; the caller decides whether that is an error.
    """
    remaining, copies = _shuffled(candidates, rng), _Copies(beside)
    chosen: list[Registration] = []
    while remaining and len(chosen) < count:
        one = min(remaining, key=lambda r: (r.bookie in avoid, copies.rank(r), r.bookie != near))
        remaining.remove(one)
        copies.add(one)
        chosen.append(one)
    return chosen


class _Copies:
    """Counts the copies in each fault domain and on each host, so that each of many candidates is ranked in constant
    time."""

    def __init__(self, copies: Iterable[Registration]) -> None:
        self._of_domain = Counter[str]()
        self._of_host = Counter[str]()
        for one in copies:
            self.add(one)

    def add(self, one: Registration) -> None:
        self._of_domain[one.fault_domain] += 1
        self._of_host[host_of(one)] += 1

    def rank(self, candidate: Registration) -> Rank:
        return self._of_domain[candidate.fault_domain], self._of_host[host_of(candidate)]


def _shuffled(candidates: Iterable[Registration], rng: random.Random) -> list[Registration]:
    """Shuffles with weights: of two bookies, one with twice the free space of the other comes first two times out of
    three.

    A bookie that has not reported its disk yet is assumed to have the average free space.
    """
    found = list(candidates)
    known = [one.disk_bytes_free for one in found if one.disk_bytes_total]
    usual = sum(known) // len(known) if known else 1
    rooms = [max(1, one.disk_bytes_free if one.disk_bytes_total else usual) for one in found]
    drawn = [(-math.log(1 - rng.random()) / room, one) for room, one in zip(rooms, found, strict=True)]
    return [one for _, one in sorted(drawn, key=lambda pair: pair[0])]


# --- striped ensembles: an entry's write set depends on the order ----------------------------------


def fewest_domains(ensemble: Sequence[Registration | None], write_quorum: int) -> int:
    """Returns the smallest number of fault domains that a write set spans. None stands for an absent bookie, which
    belongs to no domain."""
    domains = [None if one is None else one.fault_domain for one in ensemble]
    return min(_domains_of_write_sets(domains, write_quorum))


def neighbours(position: int, ensemble_size: int, write_quorum: int) -> list[int]:
    """Returns the other positions that share a write set, and therefore entries, with `position`."""
    steps = range(1 - write_quorum, write_quorum)
    return sorted({(position + step) % ensemble_size for step in steps} - {position})


def arranged(chosen: Sequence[Registration], write_quorum: int) -> list[Registration]:
    """Orders the bookies so that every write set is on as many fault domains as possible.

    Keeps the given order if no better one is found.
    """
    found = list(chosen)
    if write_quorum >= len(found):
        return found
    if any(count > 1 for count in Counter(one.fault_domain for one in found).values()):
        _improve(found, write_quorum)
        other = _dealt(chosen)
        _improve(other, write_quorum)
        if _worth(other, write_quorum) > _worth(found, write_quorum):
            return other
    return found


def gaps_max(ensemble_size: int, write_quorum: int, ack_quorum: int) -> int:
    """Returns the maximum number of bookies of an ensemble that may be absent, at evenly spread positions, without
    leaving any write set with fewer bookies than the ack quorum."""
    spare = write_quorum - ack_quorum
    fitting = (n for n in range(ensemble_size, 0, -1) if -(-write_quorum * n // ensemble_size) <= spare)
    return next(fitting, 0)


def with_gaps(living: Sequence[T], absent: Sequence[T], ensemble_size: int) -> list[T]:
    """Builds an ensemble in which the absent bookies are at evenly spread positions, and the living ones fill the other
    positions in their order.

    Any run of n positions then has at most n * absent / ensemble size absent bookies, rounded up.
    """
    rest = iter(living)
    gaps = {number * ensemble_size // len(absent): one for number, one in enumerate(absent)}
    return [gaps[n] if n in gaps else next(rest) for n in range(ensemble_size)]


def _dealt(chosen: Sequence[Registration]) -> list[Registration]:
    """Assigns bookies to every second position, those of the largest domains first, so that bookies of one domain are
    not adjacent if that can be avoided."""
    counts = Counter(one.fault_domain for one in chosen)
    by_size = sorted(chosen, key=lambda one: (-counts[one.fault_domain], one.fault_domain))
    places = [*range(0, len(by_size), 2), *range(1, len(by_size), 2)]
    return [one for _, one in sorted(zip(places, by_size, strict=True), key=lambda pair: pair[0])]


def _improve(ensemble: list[Registration], write_quorum: int) -> None:
    """Swaps pairs of bookies for as long as that improves the order."""
    worth, has_changed = _worth(ensemble, write_quorum), True
    while has_changed:
        has_changed = False
        for a, b in combinations(range(len(ensemble)), 2):
            if ensemble[a].fault_domain == ensemble[b].fault_domain:
                continue
            ensemble[a], ensemble[b] = ensemble[b], ensemble[a]
            if (other := _worth(ensemble, write_quorum)) > worth:
                worth, has_changed = other, True
            else:
                ensemble[a], ensemble[b] = ensemble[b], ensemble[a]


def _worth(ensemble: Sequence[Registration], write_quorum: int) -> tuple[int, int]:
    counts = list(_domains_of_write_sets([one.fault_domain for one in ensemble], write_quorum))
    return min(counts), sum(counts)


def _domains_of_write_sets(domains: Sequence[str | None], write_quorum: int) -> Iterator[int]:
    size = len(domains)
    for first in range(size):
        yield len({domains[(first + step) % size] for step in range(write_quorum)} - {None})
