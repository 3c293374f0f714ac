"""A store and the model under the same drawn operations: each answer, each event of a watch, and what is left.

Where an answer is lost the store itself is asked what became of the change, and the model follows: it has happened, or
not, and nothing else. What the store calls certain must be so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from random import Random
from typing import TypeVar

from metadata.errors import (
    KeyExists,
    LeaseLost,
    MetadataError,
    NoSuchKey,
    OutcomeUnknown,
    StoreUnavailable,
    VersionConflict,
)
from metadata.memory_store import MemoryData
from metadata.store import EventKind, Lease, MetadataStore, WatchEvent, list_all
from metadata.version import Version

T = TypeVar("T")

KEYS = ("a/1", "a/2", "a/3", "b/1", "b/2")
WATCHED = "a/"
LAST = "a/last"
TRIES_MAX = 200
"""More than any drawn faults in a row."""

TTL_SECONDS = 60.0
NOW = 0.0
EVENTS_SECONDS_MAX = 20.0


class AgainstModel:
    """One run. `stores` are handles of one store, used in turn."""

    def __init__(self, stores: Sequence[MetadataStore], seed: int) -> None:
        self._stores = stores
        self._random = Random(seed)
        self._model = MemoryData()
        self._versions: dict[str, dict[Version, Version]] = {key: {} for key in (*KEYS, LAST)}
        self._leases: list[tuple[Lease, Lease]] = []
        self._values = 0
        self._events: list[WatchEvent] = []
        self._has_last = asyncio.Event()

    async def run(self, operations: int) -> None:
        """Raises AssertionError where the store is not as the model."""
        page = await self._until_told(lambda: self._store.list_page(""))
        watching = asyncio.create_task(self._watch(page.revision))
        try:
            for _ in range(operations):
                await self._one()
            while self._model.get(LAST, NOW) is None:
                await self._change(
                    LAST, lambda s: s.create(LAST, b"last"), lambda: self._create(LAST, b"last")
                )
            async with asyncio.timeout(EVENTS_SECONDS_MAX):
                await self._has_last.wait()
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        self._same_events()
        await self._same_keys()

    # --- operations -----------------------------------------------------------------------------

    @property
    def _store(self) -> MetadataStore:
        return self._random.choice(self._stores)

    async def _one(self) -> None:
        key = self._random.choice(KEYS)
        match self._random.choice(
            ("get", "create", "create", "replace", "replace", "delete", "list", "lease", "leased", "revoke")
        ):
            case "get":
                await self._get(key)
            case "create":
                value = self._value()
                await self._change(key, lambda s: s.create(key, value), lambda: self._create(key, value))
            case "replace":
                value, (mine, theirs) = self._value(), self._version(key)
                await self._change(
                    key,
                    lambda s: s.replace(key, value, theirs),
                    lambda: self._model.replace(key, value, mine, NOW),
                )
            case "delete":
                mine, theirs = self._version(key)
                await self._change(
                    key, lambda s: s.delete(key, theirs), lambda: self._model.delete(key, mine, NOW)
                )
            case "list":
                await self._list()
            case "lease":
                await self._grant()
            case "leased":
                await self._create_leased(key)
            case "revoke":
                await self._revoke()

    def _value(self) -> bytes:
        self._values += 1
        return f"value {self._values}".encode()

    def _create(self, key: str, value: bytes, lease: Lease | None = None) -> Version:
        return self._model.create(key, value, None if lease is None else lease.lease_id, NOW)

    def _version(self, key: str) -> tuple[Version, Version]:
        """The model's and the store's: the latest one, an older one, one of another change at the same revision, or
        none that ever was."""
        known = list(self._versions[key].items())
        if not known or self._random.random() < 0.1:
            return Version(10**9), Version(10**9)
        if self._random.random() < 0.1:
            mine, theirs = known[-1]
            return Version(mine, b"another change"), Version(theirs, b"another change")
        return known[-1] if self._random.random() < 0.7 else self._random.choice(known)

    async def _get(self, key: str) -> None:
        found = await self._until_told(lambda: self._store.get(key))
        mine = self._model.get(key, NOW)
        assert (found and found.value) == (mine and mine.value), key
        if found is not None and mine is not None:
            assert self._versions[key][mine.version] == found.version, key

    async def _list(self) -> None:
        prefix, limit = self._random.choice(("", "a/", "b/", "c/")), self._random.choice((1, 2, 100))
        page = await self._until_told(lambda: self._store.list_page(prefix, limit=limit))
        mine = self._model.list_page(prefix, None, limit, NOW)
        assert [(one.key, one.value) for one in page.items] == [(one.key, one.value) for one in mine.items]
        assert page.next_after == mine.next_after

    # --- leases ---------------------------------------------------------------------------------

    async def _grant(self) -> None:
        """One whose answer is lost has no key, and nobody knows of it."""
        try:
            theirs = await self._store.grant_lease(TTL_SECONDS)
        except StoreUnavailable:
            return
        self._leases.append((self._model.grant(TTL_SECONDS, NOW), theirs))

    async def _create_leased(self, key: str) -> None:
        if self._leases:
            (mine, theirs), value = self._random.choice(self._leases), self._value()
            await self._change(
                key,
                lambda s: s.create(key, value, lease=theirs),
                lambda: self._create(key, value, mine),
            )
            left = await self._until_told(lambda: self._store.lease_left(key))
            assert (left is None) == (self._model.lease_left(key, NOW) is None)

    async def _revoke(self) -> None:
        """Tried again until it has succeeded: a dead lease is no error."""
        if self._leases:
            mine, theirs = self._random.choice(self._leases)
            await self._until_told(lambda: self._store.revoke_lease(theirs))
            self._model.revoke(mine.lease_id, NOW)
            try:
                await self._until_told(lambda: self._store.keep_lease(theirs))
                raise AssertionError("a lease that was revoked can be kept")
            except LeaseLost:
                return

    # --- changes --------------------------------------------------------------------------------

    async def _change(
        self,
        key: str,
        asked: Callable[[MetadataStore], Awaitable[Version | None]],
        mine: Callable[[], Version | None],
    ) -> None:
        try:
            theirs = await asked(self._store)
        except OutcomeUnknown:
            await self._find_out(key, mine)
        except StoreUnavailable:
            return  # it certainly has not happened, as every later look says
        except (KeyExists, NoSuchKey, VersionConflict, LeaseLost) as error:
            if type(error) is not type(ours := _error_of(mine)):
                raise AssertionError(f"{key}: {error!r}, and of the model {ours!r}") from error
        else:
            self._note(key, mine(), theirs)

    async def _find_out(self, key: str, mine: Callable[[], Version | None]) -> None:
        """What the store says now is what it was, or what the change makes of it."""
        found = await self._until_told(lambda: self._store.get(key))
        before = self._model.get(key, NOW)
        if (found and found.value) == (before and before.value):
            return
        self._note(key, mine(), None if found is None else found.version)
        after = self._model.get(key, NOW)
        assert (found and found.value) == (after and after.value), key

    def _note(self, key: str, mine: Version | None, theirs: Version | None) -> None:
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert theirs > max(self._versions[key].values(), default=0), "a version went back"
            self._versions[key][mine] = theirs

    async def _until_told(self, ask: Callable[[], Awaitable[T]]) -> T:
        for _ in range(TRIES_MAX):
            try:
                return await ask()
            except StoreUnavailable:
                continue
        raise AssertionError("it never answered")

    # --- the watch, and the end -----------------------------------------------------------------

    async def _watch(self, after: int) -> None:
        """One that fails goes on where it was."""
        while True:
            try:
                async with aclosing(self._stores[0].watch(WATCHED, after_revision=after)) as events:
                    async for event in events:
                        assert event.revision >= after
                        after = event.revision
                        self._events.append(event)
                        if event.key == LAST:
                            self._has_last.set()
            except StoreUnavailable:
                continue

    def _same_events(self) -> None:
        wanted, _ = self._model.events_after(WATCHED, 0, NOW)
        assert [_told(one) for one in self._events] == [_told(one) for one in wanted]

    async def _same_keys(self) -> None:
        async def everything() -> list[tuple[str, bytes]]:
            return [(one.key, one.value) async for one in list_all(self._store, "")]

        mine = self._model.list_page("", None, 100, NOW).items
        assert await self._until_told(everything) == [(one.key, one.value) for one in mine]


def _told(event: WatchEvent) -> tuple[EventKind, str, bytes]:
    return event.kind, event.key, b"" if event.kind is EventKind.DELETE else event.value


def _error_of(change: Callable[[], object]) -> MetadataError | None:
    try:
        change()
    except MetadataError as error:
        return error
    return None
