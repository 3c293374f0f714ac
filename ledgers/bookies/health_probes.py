"""Probes whether registered bookies are alive, because a dead bookie remains registered until its lease expires."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from metadata import placement
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration

from ..cluster import Cluster
from ..errors import BookieStarting, BookieUnavailable
from ..tasks import end_tasks

SLOW_ANSWER_SECONDS = 0.5
"""How long to wait for an answer before another bookie is probed as well."""

HEARD_SECONDS_MAX = 1.0
"""A bookie that sent anything within this time counts as alive."""

NOT_WRITABLE = "is read-only, drained or given up: `bookledger cluster status` shows which"
"""Why a registered bookie gets no new entries."""

REMEMBERED_SECONDS_MAX = 1.0
"""Time limit for probing a bookie that failed lately; such a bookie is probed only if no other is left."""


async def choose_alive(
    cluster: Cluster,
    candidates: Sequence[Registration],
    count: int,
    beside: Sequence[Registration],
    rejected: dict[str, str],
    *,
    avoids: bool = True,
    needed: int | None = None,
    starting: set[BookieRef] | None = None,
) -> list[Registration]:
    """Chooses up to `count` candidates that answer, those with the best placement first.

    Adds to `rejected` why each other candidate is not used, and to `starting` the bookies that will be available soon.
    Once `needed` candidates have answered, does not wait for slow ones. Bookies that failed lately are probed last;
    without `avoids` they are probed like all others. At any time, probes as many candidates as are still needed. A
    candidate that does not answer is remembered as failed, so that it does not delay the next call.
    """
    avoided = cluster.failed_lately if avoids else frozenset
    search = _ProbeSearch(cluster, candidates, beside, rejected, avoided, starting)
    try:
        while len(search.alive) < count and search.goes_on(count):
            is_enough = needed is not None and len(search.alive) >= needed
            if not await search.step(is_enough=is_enough) and is_enough:
                break
    finally:
        await search.end()
    return search.alive[:count]


class _ProbeSearch:
    """Candidates that are being probed, candidates that have answered, and those that have not been probed yet."""

    def __init__(
        self,
        cluster: Cluster,
        candidates: Sequence[Registration],
        beside: Sequence[Registration],
        rejected: dict[str, str],
        avoided: Callable[[], Collection[BookieRef]],
        starting: set[BookieRef] | None,
    ) -> None:
        self.alive: list[Registration] = []
        self._cluster = cluster
        self._left = list(candidates)
        self._beside = beside
        self._rejected = rejected
        self._avoided = avoided
        self._starting = starting
        self._asked: dict[asyncio.Task[bool], Registration] = {}
        self._slow: set[asyncio.Task[bool]] = set()

    def goes_on(self, count: int) -> bool:
        """Takes or probes as many candidates as are still needed. Returns False when enough have been found, or when
        all candidates have answered and none is left to probe."""
        missing = count - len(self.alive) - len(self._asked.keys() - self._slow)
        chosen = placement.choose(
            self._left,
            missing,
            beside=[*self._beside, *self.alive, *self._asked.values()],
            avoid=self._avoided(),
            near=self._cluster.own_bookie,
            rng=self._cluster.rng,
        )
        for registration in chosen:
            self._left.remove(registration)
            if was_heard(self._cluster, registration.bookie):
                self.alive.append(registration)
                continue
            asking = asyncio.create_task(
                takes_entries(self._cluster, registration.bookie, self._rejected, self._starting)
            )
            self._asked[asking] = registration
        return bool(self._asked) and len(self.alive) < count

    async def step(self, *, is_enough: bool) -> bool:
        """Waits for answers, and returns whether any arrived; if none arrives in time, notes the probed bookies as
        slow.

        If too few live bookies have been found and no candidate is left, waits without a time limit.
        """
        patience = SLOW_ANSWER_SECONDS if self._left or is_enough else None
        done, waiting = await asyncio.wait(self._asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        for asking in [asking for asking in self._asked if asking in done]:
            registration = self._asked.pop(asking)
            if asking.result():
                self.alive.append(registration)
        if not done:
            self._slow |= waiting
        return bool(done)

    async def end(self) -> None:
        """Cancels outstanding probes; slow bookies that were being probed count as failed."""
        for registration in (self._asked[asking] for asking in self._asked if asking in self._slow):
            self._rejected[str(registration.bookie)] = f"did not answer within {SLOW_ANSWER_SECONDS:g} s"
            self._cluster.note_failure(registration.bookie)
        await end_tasks(self._asked)


def was_heard(cluster: Cluster, bookie: BookieRef) -> bool:
    """Returns whether the bookie has sent anything very recently, and has not failed lately. If so, and it is
    registered as writable, it need not be probed."""
    now = asyncio.get_running_loop().time()
    return (
        now - cluster.bookies.heard_at(bookie) < HEARD_SECONDS_MAX and bookie not in cluster.failed_lately()
    )


async def takes_entries(
    cluster: Cluster, bookie: BookieRef, rejected: dict[str, str], starting: set[BookieRef] | None = None
) -> bool:
    """Returns whether the bookie is alive and writable. If it is not, adds the reason to `rejected`; adds a starting
    bookie to `starting`.

    A bookie that was heard from lately is not probed. A starting bookie is not remembered as failed, because it answers
    at once, and may be available when it is next asked.
    """
    if was_heard(cluster, bookie):
        return True
    patience = REMEMBERED_SECONDS_MAX if bookie in cluster.failed_lately() else None
    try:
        async with asyncio.timeout(patience):
            info = await cluster.bookies.info(bookie)
    except BookieStarting as error:
        rejected[str(bookie)] = error.why
        if starting is not None:
            starting.add(bookie)
        return False
    except BookieUnavailable as error:
        rejected[str(bookie)] = error.why
    except TimeoutError:
        rejected[str(bookie)] = (
            f"did not answer within {REMEMBERED_SECONDS_MAX:g} s, after an earlier failure"
        )
    else:
        if info.read_only:
            rejected[bookie.bookie_id] = NOT_WRITABLE
        return not info.read_only
    cluster.note_failure(bookie)
    return False
