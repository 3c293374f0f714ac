"""Choosing bookies for an ensemble: pure, given the candidates and a source of chance."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence

from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration


def host_of(registration: Registration) -> str:
    return registration.address.rsplit(":", 1)[0]


def choose(
    candidates: Iterable[Registration],
    count: int,
    *,
    beside: Sequence[Registration] = (),
    avoid: Collection[BookieRef] = (),
    rng: random.Random,
) -> list[Registration]:
    """Up to `count` bookies, on as many fault domains, then hosts, as there are, `beside` those given.

    Bookies in `avoid` (which failed lately) are taken only when nothing else is left. Fewer than
    `count` come back where there are too few candidates; the caller says what that means.
    """
    remaining = list(candidates)
    rng.shuffle(remaining)
    domains = {registration.fault_domain for registration in beside if registration.fault_domain}
    hosts = {host_of(registration) for registration in beside}
    chosen: list[Registration] = []
    while remaining and len(chosen) < count:
        best = min(
            remaining, key=lambda r: (r.bookie in avoid, r.fault_domain in domains, host_of(r) in hosts)
        )
        remaining.remove(best)
        chosen.append(best)
        hosts.add(host_of(best))
        if best.fault_domain:
            domains.add(best.fault_domain)
    return chosen
