"""Settles ambiguous compare-and-swap outcomes: writes whose answer was lost (rule M1).

A write whose answer was lost may have happened, or may happen later, when a slow store catches up. So the same
bytes, which carry a nonce of their own, are written again at the same version: if either attempt lands, reading back
shows exactly those bytes and the change is known to be ours. Anything else under the key is another client's change,
and the caller reads again and decides again.

A store that is full has answered: it has made the change or never will, and reading back tells which.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    wait_random_exponential,
)

from .errors import (
    KeyExists,
    NoSuchKey,
    OutcomeUnknown,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    VersionConflict,
)
from .store import MetadataStore

SETTLE_SECONDS_MAX = 30.0
"""Time limit for settling an unknown outcome; then the caller gets the error."""

NONCE_BYTES = 16


def new_nonce() -> bytes:
    """Random bytes that identify one change among all others."""
    return os.urandom(NONCE_BYTES)


async def create(
    store: MetadataStore,
    key: str,
    value: bytes,
    *,
    unless: str | None = None,
    seconds_max: float = SETTLE_SECONDS_MAX,
) -> int:
    """Creates the key once, whatever answers are lost on the way; returns its version.

    `value` must carry a nonce. Raises KeyExists when the key has another value, or the key `unless` exists;
    OutcomeUnknown or StoreUnavailable when the store stayed silent for `seconds_max`, StoreRefused when it is full.
    """
    return await _until_known(store, key, value, lambda: store.create(key, value, unless=unless), seconds_max)


async def replace(
    store: MetadataStore,
    key: str,
    value: bytes,
    version: int,
    *,
    unless: str | None = None,
    begins: bytes = b"",
    seconds_max: float = SETTLE_SECONDS_MAX,
) -> int:
    """Replaces the value at `version` once, whatever answers are lost; returns the new version.

    `value` must carry a nonce. Raises VersionConflict or NoSuchKey when another client changed the key first, or its
    value does not begin with `begins` and go on, KeyExists where the key `unless` exists, OutcomeUnknown or
    StoreUnavailable when the store stayed silent for `seconds_max`, StoreRefused when it is full.
    """

    def write() -> Awaitable[int]:
        return store.replace(key, value, version, unless=unless, begins=begins)

    return await _until_known(store, key, value, write, seconds_max)


async def _until_known(
    store: MetadataStore, key: str, value: bytes, write: Callable[[], Awaitable[int]], seconds_max: float
) -> int:
    """Writes until it is known that this has, or has not, happened. Nearly every first try succeeds: it is made without
    tenacity, which takes half as long as the call."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds_max
    settling = _Settling(store, key, value, write)
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


class _Settling:
    """One write, of which it is known whether an answer to it was lost."""

    def __init__(
        self, store: MetadataStore, key: str, value: bytes, write: Callable[[], Awaitable[int]]
    ) -> None:
        self._store = store
        self._key = key
        self._value = value
        self._write = write
        self._unsettled: OutcomeUnknown | None = None

    async def try_once(self) -> int:
        try:
            return await self._write()
        except StoreFull as full:
            return await _made_by_full_store(self._store, self._key, self._value, self._unsettled, full)
        except OutcomeUnknown as unknown:
            self._unsettled = unknown
            raise
        except (VersionConflict, NoSuchKey, KeyExists):
            found = await _read_back(self._store, self._key, self._unsettled)
            if found is not None and found[0] == self._value:
                return found[1]
            raise


async def _made_by_full_store(
    store: MetadataStore, key: str, value: bytes, unsettled: OutcomeUnknown | None, full: StoreFull
) -> int:
    """The version of a change that crossed the store's limit. Raises StoreRefused where it was not made; after a lost
    answer that one, which may be applied once there is room."""
    found = await _read_back(store, key, unsettled or full)
    if found is not None and found[0] == value:
        return found[1]
    if unsettled is not None:
        raise unsettled from full
    raise StoreRefused(f"nothing was changed: {full}") from full


async def _read_back(
    store: MetadataStore, key: str, unsettled: OutcomeUnknown | None
) -> tuple[bytes, int] | None:
    """Reads the key back. If that fails after a lost answer, the outcome stays unknown."""
    try:
        found = await store.get(key)
    except StoreUnavailable as unavailable:
        raise (unsettled or unavailable) from unavailable
    return None if found is None else (found.value, found.version)


async def delete_unless_changed(store: MetadataStore, key: str, version: int) -> None:
    """Deletes this version of the key, unless another client was faster. Raises MetadataError."""
    try:
        await store.delete(key, version)
    except (NoSuchKey, VersionConflict):
        pass
