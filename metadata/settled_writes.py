"""Changes keys by compare-and-swap (rule M1): settles writes whose answer was lost, and decides again after a conflict.

A write whose answer was lost may have happened, or may happen later, when a slow store catches up. So the same bytes,
which contain a nonce, are written again at the same version. If either attempt succeeds, reading the key back returns
exactly those bytes, which shows that the change is ours. Any other value under the key is another client's change, and
the change is decided again, based on that value.

A full store does answer: it has made the change or never will, and reading the key back shows which.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    wait_random_exponential,
)

from .errors import (
    CONFLICTS_MAX,
    KeepsChanging,
    KeyConflict,
    KeyExists,
    MetadataRestored,
    OutcomeUnknown,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from .store import MetadataStore, Versioned
from .version import Version

T = TypeVar("T")
F = TypeVar("F")
R = TypeVar("R")

SETTLE_SECONDS_MAX = 30.0
"""Time limit for settling an unknown outcome; after that the caller gets the error."""

NONCE_BYTES = 16


def new_nonce() -> bytes:
    """Returns random bytes that distinguish one change from all others."""
    return os.urandom(NONCE_BYTES)


async def create(
    store: MetadataStore,
    key: str,
    value: bytes,
    *,
    unless: str | None = None,
    seconds_max: float = SETTLE_SECONDS_MAX,
) -> Version:
    """Creates the key once, even if answers are lost; returns its version.

    `value` must contain a nonce. Raises KeyExists if the key has another value; MetadataRestored if the key `unless`
    exists, which blocks changes; OutcomeUnknown or StoreUnavailable if the store did not answer for `seconds_max`;
    StoreRefused if it is full.
    """

    def write() -> Awaitable[Version]:
        return store.create(key, value, unless=unless)

    return await _until_known(_Settling(store, key, value, write, unless), seconds_max)


async def create_unless_there(store: MetadataStore, key: str, value: bytes) -> None:
    """Creates the key as `create` does. Leaves an existing key unchanged."""
    with suppress(KeyExists):
        await create(store, key, value)


async def replace(
    store: MetadataStore,
    key: str,
    value: bytes,
    version: Version,
    *,
    unless: str | None = None,
    seconds_max: float = SETTLE_SECONDS_MAX,
) -> Version:
    """Replaces the value at `version` once, even if answers are lost; returns the new version.

    `value` must contain a nonce. Raises VersionConflict or NoSuchKey if another client changed the key first;
    MetadataRestored if the key `unless` exists; OutcomeUnknown or StoreUnavailable if the store did not answer for
    `seconds_max`; StoreRefused if it is full.
    """

    def write() -> Awaitable[Version]:
        return store.replace(key, value, version, unless=unless)

    return await _until_known(_Settling(store, key, value, write, unless), seconds_max)


async def write(
    store: MetadataStore,
    key: str,
    value: bytes,
    version: Version | None,
    *,
    unless: str | None = None,
    seconds_max: float = SETTLE_SECONDS_MAX,
) -> Version:
    """Calls `create` if `version` is None because the caller found no key, else `replace`. Raises the same errors as
    the function that it calls."""
    if version is None:
        return await create(store, key, value, unless=unless, seconds_max=seconds_max)
    return await replace(store, key, value, version, unless=unless, seconds_max=seconds_max)


class Changed(NamedTuple, Generic[T]):
    """The value of a key before a change and after it. `before` is None if the key did not exist, and `after` is None
    if it does not exist afterwards."""

    before: T | None
    after: T | None


async def change(
    store: MetadataStore,
    key: str,
    step: Callable[[T | None], T | None],
    decode: Callable[[str, bytes], T],
    encode: Callable[[T], bytes],
    *,
    unless: str | None = None,
) -> Changed[T]:
    """Changes a key once, using `step`, a pure function of the key's value that is called again after each conflict.

    `step` gets None if the key does not exist, and returns None to delete the key. Nothing is changed if `step` returns
    its argument or raises. `encode` adds a nonce.

    Raises KeepsChanging, and all errors of `create`, `replace` and `decode` except conflicts.
    """

    async def attempt(found: Versioned | None) -> Changed[T]:
        before = None if found is None else decode(key, found.value)
        after = step(before)
        if after is None and found is not None:
            await store.delete(key, found.version)
        elif after is not None and after != before:
            await write(store, key, encode(after), None if found is None else found.version, unless=unless)
        return Changed(before, after)

    return await until_changed(
        f"metadata key {key!r}", await store.get(key), attempt, partial(store.get, key)
    )


async def put(store: MetadataStore, key: str, value: bytes) -> None:
    """Sets the key to this value, whatever its current value. Raises the same errors as `change`."""
    await change(store, key, lambda _: value, _as_it_is, bytes)


async def delete(store: MetadataStore, key: str) -> bool:
    """Deletes the key, whatever its value; returns whether it existed. Raises the same errors as `change`."""
    return (await change(store, key, lambda _: None, _as_it_is, bytes)).before is not None


async def delete_unless_changed(
    store: MetadataStore, key: str, version: Version, *, unless: str | None = None
) -> bool:
    """Deletes the key if it is still at this version; returns False if another client changed it first, or if the key
    `unless` exists. Raises MetadataError."""
    try:
        await store.delete(key, version, unless=unless)
    except KeyConflict:
        return False
    return True


def _as_it_is(_: str, value: bytes) -> bytes:
    return value


async def until_changed(
    what: str, found: F, attempt: Callable[[F | R], Awaitable[T]], read: Callable[[], Awaitable[R]]
) -> T:
    """Attempts a change, first with `found`, then with the result of `read` after each conflict. Returns the attempt's
    result.

    Used for changes that `change` cannot make because they also read or write other keys, or start from a record
    already read. The attempt raises KeyConflict if another client was faster. Raises KeepsChanging with `what` in its
    message.
    """
    now: F | R = found
    for _ in range(CONFLICTS_MAX):
        try:
            return await attempt(now)
        except KeyConflict:
            now = await read()
    raise KeepsChanging(what)


async def _until_known(settling: _Settling, seconds_max: float) -> Version:
    """Repeats the write until its outcome is known. The first attempt nearly always succeeds, so it is made without
    tenacity, which would make the call take 50% longer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds_max
    try:
        return await settling.try_once()
    except StoreUnavailable as error:
        if isinstance(error, StoreRefused) or seconds_max <= 0:
            raise
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(StoreUnavailable) & retry_if_not_exception_type(StoreRefused),
        stop=lambda _: loop.time() >= deadline,
        wait=wait_random_exponential(multiplier=0.05, max=2.0),
        reraise=True,
    ):
        with attempt:
            return await settling.try_once()
    raise AssertionError("a retry ends with an answer or an error")


@dataclass
class _Settling:
    """One write that is being settled. Records whether an answer to it was lost."""

    store: MetadataStore
    key: str
    value: bytes
    write: Callable[[], Awaitable[Version]]
    unless: str | None
    unsettled: OutcomeUnknown | None = None

    async def try_once(self) -> Version:
        try:
            return await self.write()
        except StoreFull as full:
            return await _made_by_full_store(self.store, self.key, self.value, self.unsettled, full)
        except OutcomeUnknown as unknown:
            self.unsettled = unknown
            raise
        except KeyConflict as conflict:
            found = await _read_back(self.store, self.key, self.unsettled)
            if found is not None and found.value == self.value:
                return found.version
            if isinstance(conflict, KeyExists) and conflict.key == self.unless:
                raise MetadataRestored from conflict
            raise


async def _made_by_full_store(
    store: MetadataStore, key: str, value: bytes, unsettled: OutcomeUnknown | None, full: StoreFull
) -> Version:
    """Returns the version if the change was the one that crossed the store's space limit. Raises StoreRefused if the
    change was not made; but if the answer to an earlier attempt was lost, raises the OutcomeUnknown of that attempt,
    because its write may still be applied once there is room."""
    found = await _read_back(store, key, unsettled or full)
    if found is not None and found.value == value:
        return found.version
    if unsettled is not None:
        raise unsettled from full
    raise StoreRefused(f"nothing was changed: {full}") from full


async def _read_back(store: MetadataStore, key: str, unsettled: OutcomeUnknown | None) -> Versioned | None:
    """Reads the key back. If that fails after a lost answer, the outcome stays unknown."""
    try:
        return await store.get(key)
    except StoreUnavailable as unavailable:
        raise (unsettled or unavailable) from unavailable
