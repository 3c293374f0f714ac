"""The metadata store in virtual time: the memory model behind a network that loses requests and answers.

A request on its way arrives even when its caller has given up, and what it changes is checked when it is
applied. A change whose answer does not come is OutcomeUnknown to its caller, whatever became of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

from metadata import keys
from metadata.errors import MetadataError, OutcomeUnknown, StoreUnavailable, WatchCompacted
from metadata.memory_store import MemoryData, MemoryStore
from metadata.store import (
    PAGE_KEYS_MAX,
    Lease,
    Page,
    StoreHealth,
    Versioned,
    WatchEvent,
    check_value,
)
from metadata.version import Version
from tests.simulation.cores.plans.plan import METADATA

from .site import Site, decide
from .watch import Watch

T = TypeVar("T")

REQUEST_SECONDS = 2.0
"""How long a client waits for an answer."""

REFUSED_SHARE = 0.3
"""Share of requests to a store that is away which fail at once, and certainly were not served."""

LISTED_MAX = 2
"""A page of a listing is this short, so that listings have several; but for queues, which are read as one."""

COMPACTED_SHARE = 0.1
"""Share of events at which a watch has fallen behind the history that is kept."""


class VirtualMetadata:
    """The store itself. `away_until`: serves nothing before; with `applies` it does what is asked, in silence."""

    def __init__(self, site: Site, watch: Watch) -> None:
        self.site = site
        self.watch = watch
        self.data = MemoryData()
        self.is_calm = False
        self._away_until = 0.0
        self._applies = False
        self._gaps: dict[str, float] = {}
        self._leases: dict[str, Lease] = {}

    def go_away(self, seconds: float, *, applies: bool) -> None:
        self.site.world.note("the metadata store is away for %s s, applies: %s", seconds, applies)
        self._away_until, self._applies = self.site.world.now + seconds, applies

    def hold_back(self, client: str, seconds: float) -> None:
        """This client's watches hear nothing for a while, then everything."""
        self._gaps[client] = self.site.world.now + seconds

    def lose_lease(self, bookie_id: str) -> None:
        """The registration of a live bookie runs out."""
        lease = self._leases.get(bookie_id)
        if lease is not None:
            self.data.revoke(lease.lease_id, self.site.world.now)

    def calm(self) -> None:
        self.is_calm = True
        self._away_until = 0.0
        self._gaps.clear()

    @property
    def is_away(self) -> bool:
        return self.site.world.now < self._away_until

    @property
    def is_silent(self) -> bool:
        """Does not even take requests in."""
        return self.is_away and not self._applies

    def held_back(self, client: str) -> float:
        """Seconds until this client's watches hear anything."""
        until = max(self._gaps.get(client, 0.0), self._away_until)
        return max(0.0, until - self.site.world.now)

    def put(self, key: str, value: bytes, change: Callable[[], Version]) -> Version:
        version = change()
        self.watch.put(key, value)
        return version

    def grant(self, client: str, ttl_seconds: float) -> Lease:
        lease = self._leases[client] = self.data.grant(ttl_seconds, self.site.world.now)
        return lease

    def remove(self, key: str, version: Version, unless: str | None = None) -> None:
        self.data.delete(key, version, self.site.world.now, unless)
        self.watch.removed(key)


class VirtualStore:
    """One client's handle. See `MetadataStore` for what it promises."""

    def __init__(self, server: VirtualMetadata, client: str) -> None:
        self._server = server
        self._site = server.site
        self._client = client
        self._inner = MemoryStore(server.data)  # for its watches
        self._waiting: dict[asyncio.Future[object], StoreUnavailable] = {}
        self._is_closed = False

    async def get(self, key: str) -> Versioned | None:
        return await self._call("get", lambda: self._data.get(key, self._now), writes=False)

    async def create(
        self, key: str, value: bytes, *, lease: Lease | None = None, unless: str | None = None
    ) -> Version:
        check_value(key, value)
        lease_id = None if lease is None else lease.lease_id
        make = lambda: self._data.create(key, value, lease_id, self._now, unless)  # noqa: E731
        return await self._call("create", lambda: self._server.put(key, value, make), writes=True)

    async def replace(
        self, key: str, value: bytes, version: Version, *, unless: str | None = None
    ) -> Version:
        check_value(key, value)
        swap = lambda: self._data.replace(key, value, version, self._now, unless)  # noqa: E731
        return await self._call("replace", lambda: self._server.put(key, value, swap), writes=True)

    async def delete(self, key: str, version: Version, *, unless: str | None = None) -> None:
        await self._call("delete", lambda: self._server.remove(key, version, unless), writes=True)

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX) -> Page:
        shorter = limit if prefix.startswith(keys.CANDIDATES) else min(limit, LISTED_MAX)
        return await self._call(
            "list", lambda: self._data.list_page(prefix, after, shorter, self._now), writes=False
        )

    async def watch(
        self, prefix: str, *, after_revision: int | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events come late, and at times the history they belong to is gone."""
        self._raise_if_closed()
        async with aclosing(self._inner.watch(prefix, after_revision=after_revision)) as events:
            async for event in events:
                await self._travel()
                if not self._server.is_calm and self._site.happens(
                    COMPACTED_SHARE, "compacted", self._client
                ):
                    raise WatchCompacted(event.revision - 1)
                yield event

    async def grant_lease(self, ttl_seconds: float) -> Lease:
        return await self._call("grant", lambda: self._server.grant(self._client, ttl_seconds), writes=True)

    async def keep_lease(self, lease: Lease) -> None:
        await self._call("keep", lambda: self._data.keep(lease.lease_id, self._now), writes=True)

    async def lease_left(self, key: str) -> float | None:
        return await self._call("lease", lambda: self._data.lease_left(key, self._now), writes=False)

    async def revoke_lease(self, lease: Lease) -> None:
        await self._call("revoke", lambda: self._data.revoke(lease.lease_id, self._now), writes=True)

    async def health(self) -> StoreHealth:
        return StoreHealth("simulated", "", 0)

    async def close(self) -> None:
        """What is under way fails; its outcome is unknown where it changes something."""
        self.end()
        await self._inner.close()

    def end(self) -> None:
        """Nothing is asked any more."""
        self._is_closed = True
        for answer, error in self._waiting.items():
            if not answer.done():
                answer.set_exception(error)

    # ----------------------------------------------------------------------------------------------

    @property
    def _data(self) -> MemoryData:
        return self._server.data

    @property
    def _now(self) -> float:
        return self._site.loop.time()

    def _raise_if_closed(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("this store is closed")

    async def _travel(self) -> None:
        """A watch's event comes, late when the store is away or the message was lost and asked for again."""
        delay = self._site.delay("watch", METADATA, self._client)
        await asyncio.sleep(REQUEST_SECONDS if delay is None else delay)
        while (seconds := self._server.held_back(self._client)) > 0:  # noqa: ASYNC110 — it moves
            await asyncio.sleep(seconds)

    async def _call(self, what: str, serve: Callable[[], T], *, writes: bool) -> T:
        self._raise_if_closed()
        answer: asyncio.Future[T] = self._site.loop.create_future()
        silence = (OutcomeUnknown if writes else StoreUnavailable)(f"no answer to {what}")
        if self._server.is_silent and self._site.happens(REFUSED_SHARE, "refused", self._client):
            self._site.world.after(
                self._site.pace_seconds, lambda: decide(answer, StoreUnavailable("refused"))
            )
        else:
            self._send(what, serve, answer)
        self._waiting[answer] = silence  # type: ignore[index]
        timer = self._site.loop.call_later(REQUEST_SECONDS, decide, answer, silence)
        try:
            return await answer
        finally:
            timer.cancel()
            del self._waiting[answer]  # type: ignore[arg-type]

    def _send(self, what: str, serve: Callable[[], T], answer: asyncio.Future[T]) -> None:
        delay = self._site.delay("cas", self._client, METADATA)
        if delay is not None:
            self._site.world.after(delay, lambda: self._arrive(what, serve, answer))

    def _arrive(self, what: str, serve: Callable[[], T], answer: asyncio.Future[T]) -> None:
        if self._server.is_silent:
            return
        result: T | MetadataError
        try:
            result = serve()
        except MetadataError as error:
            result = error
        if what != "keep":  # every bookie renews its lease all the time
            self._site.world.note("%s of %s: %s", what, self._client, type(result).__name__)
        delay = self._site.delay("cas reply", METADATA, self._client)
        if delay is not None and not self._server.is_away:
            self._site.world.after(delay, lambda: decide(answer, result))
