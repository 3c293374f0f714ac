"""Finds replacements for failed bookies of an ensemble."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice, permutations

from metadata import placement
from metadata.errors import MetadataError
from metadata.records.cluster import list_bookies
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration

from ..cluster import Cluster
from ..protocol.ledger_effects import IN_ENSEMBLE, FindReplacements
from .health_probes import NOT_WRITABLE, choose_alive, takes_entries

ORDERS_MAX = 120
"""Maximum number of permutations tried when several bookies are replaced at once: enough for five bookies."""


async def find_replacements(
    cluster: Cluster, effect: FindReplacements, write_quorum: int, *, domains_min: int = 1
) -> tuple[dict[int, BookieRef], dict[str, str]]:
    """Finds, if possible, a live bookie for each failed position; also returns the reasons why other bookies are not
    used.

    New bookies are preferred, if the effect allows any. The second choice, only for the failed bookie's own position,
    is a bookie that was reformatted under the same name. The last choice is the failed bookie itself, if it answers.
    All are probed first, because a dead bookie remains registered until its lease expires. New bookies are not used if
    they would leave an entry's copies on fewer fault domains than `domains_min` and on fewer than at present.
    """
    try:
        registered = await list_bookies(cluster.store)
    except MetadataError as error:
        return {}, {"metadata": str(error)}
    rejected: dict[str, str] = {}
    candidates = [] if effect.in_place else [r for r in registered if _is_candidate(r, effect, rejected)]
    near = {n for f in effect.failed for n in placement.neighbours(f, len(effect.ensemble), write_quorum)}
    staying = [effect.ensemble[n] for n in sorted(near - effect.failed.keys())]
    beside = [r for r in registered if r.bookie in staying]
    found = await choose_alive(cluster, candidates, len(effect.failed), beside, rejected)
    placed = _arranged(effect, found, registered, write_quorum, domains_min, rejected)
    if found and not placed:  # every bookie in a fault domain may have failed recently
        found = await choose_alive(cluster, candidates, len(effect.failed), beside, rejected, avoids=False)
        placed = _arranged(effect, found, registered, write_quorum, domains_min, rejected)
    chosen = {position: one.bookie for position, one in zip(effect.failed, placed, strict=False)}
    left = [position for position in effect.failed if position not in chosen]
    own_places = [
        [*([] if effect.in_place else _formatted_anew(registered, effect.ensemble[n])), effect.ensemble[n]]
        for n in left
    ]
    answered = await asyncio.gather(
        *(_first_that_takes_entries(cluster, own, rejected) for own in own_places)
    )
    chosen |= {n: bookie for n, bookie in zip(left, answered, strict=True) if bookie is not None}
    return chosen, rejected


def _arranged(
    effect: FindReplacements,
    found: Sequence[Registration],
    registered: Sequence[Registration],
    write_quorum: int,
    domains_min: int,
    rejected: dict[str, str],
) -> Sequence[Registration]:
    """Orders the bookies for the best placement. If the placement policy does not allow these bookies, returns none and
    adds the reason to `rejected`."""
    known = {one.bookie: one for one in registered}
    now = [known.get(bookie, Registration(bookie, "")) for bookie in effect.ensemble]

    def domains(order: Sequence[Registration]) -> int:
        changed = dict(zip(effect.failed, order, strict=False))
        return placement.fewest_domains([changed.get(n, one) for n, one in enumerate(now)], write_quorum)

    best = max(islice(permutations(found), ORDERS_MAX), key=domains)
    if domains(best) >= min(domains_min, domains(())):
        return best
    for one in best:
        rejected[str(one.bookie)] = f"would leave copies on fewer than {domains_min} fault domains"
    return []


def _formatted_anew(registered: Sequence[Registration], former: BookieRef) -> list[BookieRef]:
    """Returns the live bookie that has the failed one's name but a different incarnation, if there is one."""
    named = [r.bookie for r in registered if r.writable and r.bookie.bookie_id == former.bookie_id]
    return [bookie for bookie in named if bookie != former]


def _is_candidate(registration: Registration, effect: FindReplacements, rejected: dict[str, str]) -> bool:
    name = registration.bookie.bookie_id
    for position, bookie in enumerate(effect.ensemble):
        if name == bookie.bookie_id:
            rejected[name] = effect.failed.get(position, IN_ENSEMBLE)
            return False
    if not registration.writable:
        rejected[name] = NOT_WRITABLE
        return False
    return True


async def _first_that_takes_entries(
    cluster: Cluster, bookies: Sequence[BookieRef], rejected: dict[str, str]
) -> BookieRef | None:
    for bookie in bookies:
        if await takes_entries(cluster, bookie, rejected):
            return bookie
    return None
