"""Finding live bookies, for a new ensemble or in place of failed ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from metadata.errors import MetadataError
from metadata.records import bookie_registry
from metadata.records.bookie_registry import Registration
from metadata.records.ledger_record import BookieRef

from ..cluster import Cluster
from ..errors import BookieUnavailable
from ..protocol import placement
from ..protocol.effects import FindReplacements


async def find_replacements(
    cluster: Cluster, effect: FindReplacements
) -> tuple[dict[int, BookieRef], dict[str, str]]:
    """A live bookie for each failed position, as far as there are any, and why the others are not used.

    New bookies are preferred, where the effect allows any; then, for its own place only, one that was
    formatted anew under the failed one's name, and last the failed bookie itself, if it answers. All are asked
    for a sign of life first: a registration outlives its bookie by a lease.
    """
    try:
        registered = await bookie_registry.list_bookies(cluster.store)
    except MetadataError as error:
        return {}, {"metadata": str(error)}
    rejected: dict[str, str] = {}
    candidates = [] if effect.in_place else [r for r in registered if _is_candidate(r, effect, rejected)]
    staying = [bookie for n, bookie in enumerate(effect.ensemble) if n not in effect.failed]
    beside = [r for r in registered if r.bookie in staying]
    chosen: dict[int, BookieRef] = {}
    found = await choose_alive(cluster, candidates, len(effect.failed), beside, rejected)
    for position in effect.failed:
        if found:
            chosen[position] = found.pop(0).bookie
            continue
        own = effect.ensemble[position]
        for bookie in [*([] if effect.in_place else _formatted_anew(registered, own)), own]:
            if await _takes_entries(cluster, bookie, rejected):
                chosen[position] = bookie
                break
    return chosen, rejected


def _formatted_anew(registered: Sequence[Registration], former: BookieRef) -> list[BookieRef]:
    """The live bookie that has the failed one's name and is another incarnation, if there is one."""
    named = [r.bookie for r in registered if r.writable and r.bookie.bookie_id == former.bookie_id]
    return [bookie for bookie in named if bookie != former]


def _is_candidate(registration: Registration, effect: FindReplacements, rejected: dict[str, str]) -> bool:
    name = registration.bookie.bookie_id
    if any(name == bookie.bookie_id for bookie in effect.ensemble):
        rejected[name] = "is in the ensemble"
        return False
    if not registration.writable:
        rejected[name] = "is read-only"
        return False
    return True


async def choose_alive(
    cluster: Cluster,
    candidates: list[Registration],
    count: int,
    beside: Sequence[Registration],
    rejected: dict[str, str],
) -> list[Registration]:
    """Up to `count` candidates that answer, best placed first; why others do not goes into `rejected`."""
    remaining = list(candidates)
    alive: list[Registration] = []
    while remaining and len(alive) < count:
        batch = placement.choose(
            remaining,
            count - len(alive),
            beside=[*beside, *alive],
            avoid=cluster.failed_lately(),
            rng=cluster.rng,
        )
        answers = await asyncio.gather(*(_takes_entries(cluster, r.bookie, rejected) for r in batch))
        alive += [registration for registration, lives in zip(batch, answers, strict=True) if lives]
        remaining = [registration for registration in remaining if registration not in batch]
    return alive


async def _takes_entries(cluster: Cluster, bookie: BookieRef, rejected: dict[str, str]) -> bool:
    try:
        info = await cluster.bookies.info(bookie)
        if info.read_only:
            rejected[bookie.bookie_id] = "is read-only"
        return not info.read_only
    except BookieUnavailable as error:
        rejected[str(bookie)] = error.why
        cluster.note_failure(bookie)
        return False
