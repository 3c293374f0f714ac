"""Chooses the ensemble of a new ledger, from live bookies if there are enough (rule W9)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from metadata import placement
from metadata.healing.presence import NOT_REGISTERED, Expected, absent_for_long, expected_bookies
from metadata.records.ledger_record import BookieRef, Fragment, Lacking, Shape
from metadata.records.registration import Registration

from ..cluster import Cluster
from ..creating.known_bookies import Listed
from ..errors import NotEnoughBookies
from .health_probes import NOT_WRITABLE, choose_alive

log = logging.getLogger(__name__)

REGISTRATION_SECONDS_MAX = 10.0
"""How long the creation of a ledger waits for formatted bookies to register, and for registered bookies that are still
reading their log. After an outage of the metadata, bookies register within a third of their lease. A NameNode allows 20
s for a new segment."""

REGISTRATION_LOOK_SECONDS = 0.2
"""Interval at which the creation of a ledger checks for the bookies that it is waiting for."""


async def first_fragment(cluster: Cluster, shape: Shape) -> Fragment:
    """Returns the first fragment of a new ledger, with every write set spread over as many fault domains as possible.

    If too few bookies are live for a complete ensemble, the fragment includes absent ones, which lack every entry.
    These are formatted bookies that are not registered, do not answer or accept no entries, and are neither drained nor
    given up. Every write set has an ack quorum of live bookies. With `require_all_bookies` no bookie may be absent.
    Waits up to REGISTRATION_SECONDS_MAX for bookies to register or to read their logs, if that would make a fragment
    possible.

    Raises MetadataError, and NotEnoughBookies, including when there are fewer domains than `fault_domains_min`.
    """
    listed = await cluster.known_bookies.lately()
    search = await _search(cluster, shape, listed)
    if not search.is_whole and not listed.is_fresh:
        search = await _search(cluster, shape, await cluster.known_bookies.now())
    return search.whole() if search.is_whole else await _without_some(cluster, search)


async def _without_some(cluster: Cluster, search: _EnsembleSearch) -> Fragment:
    """Returns a fragment with absent bookies, or one of live bookies once enough of them are available. Raises as
    `first_fragment` does."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + REGISTRATION_SECONDS_MAX
    expected = await expected_bookies(cluster.store)
    if (fragment := search.with_absent(expected)) is not None:
        return fragment
    gone = await absent_for_long(cluster.store)
    if search.may_be_completed(expected, gone):
        log.info("waiting for bookies to register or to start: %s", search.failure(expected))
    while loop.time() < deadline and search.may_be_completed(expected, gone):
        await asyncio.sleep(REGISTRATION_LOOK_SECONDS)
        search = await _search(cluster, search.shape, await cluster.known_bookies.now())
        fragment = search.whole() if search.is_whole else search.with_absent(expected)
        if fragment is not None:
            return fragment
    raise search.failure(expected)


async def _search(cluster: Cluster, shape: Shape, listed: Listed) -> _EnsembleSearch:
    """Looks for a live bookie for each position."""
    gaps_max = 0
    if not cluster.config.require_all_bookies:
        gaps_max = placement.gaps_max(shape.ensemble_size, shape.write_quorum, shape.ack_quorum)
    domains_min = cluster.config.fault_domains_min
    rejected = {r.bookie.bookie_id: NOT_WRITABLE for r in listed.bookies if not r.writable}
    candidates = [r for r in listed.bookies if r.writable]
    search = _EnsembleSearch(shape, domains_min, gaps_max, listed.bookies, rejected)
    for avoids in (True, False):  # every bookie in a fault domain may have failed recently
        search.living = await choose_alive(
            cluster,
            candidates,
            shape.ensemble_size,
            (),
            rejected,
            avoids=avoids,
            needed=search.living_min,
            starting=search.starting,
        )
        if search.has_domains:
            break
    return search


@dataclass(slots=True)
class _EnsembleSearch:
    """The live bookies found, the reasons why other bookies are not used, and the registered bookies that are
    `starting`."""

    shape: Shape
    domains_min: int
    gaps_max: int
    registered: Sequence[Registration]
    rejected: dict[str, str]
    living: Sequence[Registration] = ()
    starting: set[BookieRef] = field(default_factory=set)

    @property
    def living_min(self) -> int:
        """Minimum number of live bookies."""
        return self.shape.ensemble_size - self.gaps_max

    @property
    def is_whole(self) -> bool:
        return len(self.living) == self.shape.ensemble_size and self.has_domains

    def whole(self) -> Fragment:
        return Fragment(0, tuple(r.bookie for r in self._arranged()), number=1)

    def with_absent(self, expected: Sequence[Expected]) -> Fragment | None:
        """Returns a fragment with absent bookies at evenly spread positions; None if that is not permitted."""
        living = self._arranged()
        count = self.shape.ensemble_size - len(living)
        names = {one.bookie.bookie_id for one in living}
        registered = {one.bookie for one in self.registered}
        # Registered bookies come first, because a bookie that hangs is back sooner than one that is dead.
        likely = sorted((one.bookie for one in expected), key=lambda bookie: bookie not in registered)
        absent = [bookie for bookie in likely if bookie.bookie_id not in names][:count]
        if not 0 < count <= self.gaps_max or len(absent) < count or not self.has_domains:
            return None
        ensemble = placement.with_gaps([one.bookie for one in living], absent, self.shape.ensemble_size)
        lacking = tuple(Lacking.everything(n) for n, bookie in enumerate(ensemble) if bookie in absent)
        return Fragment(0, tuple(ensemble), lacking=lacking, number=1)

    def may_be_completed(self, expected: Sequence[Expected], gone: Collection[BookieRef]) -> bool:
        """Returns whether there would be enough bookies if every bookie that may soon be available became available."""
        soon = sum(not one.is_in_maintenance and one.bookie not in gone for one in self._away(expected))
        soon += sum(one.bookie in self.starting for one in expected)
        return soon > 0 and len(self.living) + soon >= self.living_min

    def _away(self, expected: Sequence[Expected]) -> list[Expected]:
        names = {one.bookie.bookie_id for one in self.registered}
        return [one for one in expected if one.bookie.bookie_id not in names]

    def failure(self, expected: Sequence[Expected]) -> NotEnoughBookies:
        away = {one.bookie.bookie_id: f"is {NOT_REGISTERED}" for one in self._away(expected)}
        reasons = {**away, **self.rejected}
        known = len(self.registered) + len(away)
        return NotEnoughBookies(self._wanted(known), reasons, [str(r.bookie) for r in self.living])

    def _wanted(self, known: int) -> str:
        live_enough = len(self.living) >= self.living_min
        if live_enough and (domains := self._domains()) < self.domains_min:
            return f"copies in {self.domains_min} fault domains, of which these cover {domains}"
        size = self.shape.ensemble_size
        wanted = f"a new ledger of ensemble size {size}"
        if self.gaps_max:
            others = ", and the others formatted and staying" if live_enough else ""
            wanted += f", of which {self.living_min} must be live{others}"
        if known < size:
            wanted += f"; it needs {size} bookies, and this cluster has {known} eligible ones"
        return wanted

    @property
    def has_domains(self) -> bool:
        if len(self.living) < self.living_min:
            return False
        # Each write set has a live bookie, so it covers at least one domain.
        return self.domains_min <= 1 or self._domains() >= self.domains_min

    def _arranged(self) -> list[Registration]:
        return placement.arranged(self.living, self.shape.write_quorum)

    def _domains(self) -> int:
        """Returns the smallest number of fault domains that the live bookies of any write set cover."""
        size = self.shape.ensemble_size
        absent = [None] * (size - len(self.living))
        ensemble = placement.with_gaps(self._arranged(), absent, size)
        return placement.fewest_domains(ensemble, self.shape.write_quorum)
