"""Where copies go: spread over fault domains, then hosts; bookies with more room more often. Pure.

One policy for whoever chooses a bookie: new ledgers, ensemble changes, healing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Sequence

from .records.ledger_record import BookieRef
from .records.registration import Registration

Rank = tuple[bool, bool]
"""Whether a bookie shares its fault domain, and its host, with another copy: the lower the better."""


def host_of(registration: Registration) -> str:
    return registration.address.rsplit(":", 1)[0]


def rank(candidate: Registration, beside: Iterable[Registration]) -> Rank:
    """How well the candidate stands beside these."""
    others = list(beside)
    domain = candidate.fault_domain
    return (
        bool(domain) and any(domain == other.fault_domain for other in others),
        any(host_of(candidate) == host_of(other) for other in others),
    )


def best(candidates: Iterable[Registration], beside: Sequence[Registration]) -> list[Registration]:
    """Those that none of the candidates stands better than."""
    ranked = [(rank(candidate, beside), candidate) for candidate in candidates]
    lowest = min((one for one, _ in ranked), default=None)
    return [candidate for one, candidate in ranked if one == lowest]


def choose(
    candidates: Iterable[Registration],
    count: int,
    *,
    beside: Sequence[Registration] = (),
    avoid: Collection[BookieRef] = (),
    rng: random.Random,
) -> list[Registration]:
    """Up to `count` bookies, on as many fault domains, then hosts, as there are, `beside` those given.

    Bookies in `avoid` (which failed lately) are taken only when nothing else is left. Among equals chance decides, in
    proportion to free space. Fewer than `count` come back where there are too few candidates; the caller says what
    that means.
    """
    remaining = _shuffled(candidates, rng)
    chosen: list[Registration] = []
    while remaining and len(chosen) < count:
        near = [*beside, *chosen]
        one = min(remaining, key=lambda candidate: (candidate.bookie in avoid, rank(candidate, near)))
        remaining.remove(one)
        chosen.append(one)
    return chosen


def _shuffled(candidates: Iterable[Registration], rng: random.Random) -> list[Registration]:
    """At random; one with twice the room comes before another two times out of three."""
    drawn = [(-math.log(1 - rng.random()) / max(1, one.disk_bytes_free), one) for one in candidates]
    return [one for _, one in sorted(drawn, key=lambda pair: pair[0])]
