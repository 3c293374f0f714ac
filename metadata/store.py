"""The contract of a metadata store: versioned keys, compare-and-swap, leases, watches.

Every shared decision of the system is one compare-and-swap on one key's version (rule M1). A store that cannot do that
cannot be used, so no method here has a default body. Every implementation is tested by the contract suite
`tests/contracts/metadata_store.py`.

Versions and revisions: a store has one revision counter that rises with every change. A key's version contains the
revision of its last change, so versions are comparable across keys, and a watch resumes "after revision r".
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from .errors import ValueTooLarge
from .version import Version

VALUE_BYTES_MAX = 1024 * 1024
"""Size of the largest value that every store accepts (etcd refuses 1.5 MiB requests; a ledger record needs far less).
"""

KEY_END = b"\xff"
"""Greater than every key: no UTF-8 text contains this byte."""

PAGE_KEYS_MAX = 1000
"""Maximum number of keys in one page of a listing."""

PAGES_WITHOUT_REST = 8
"""Number of pages that a listing reads without pausing. After each further page it pauses for as long as that page
took, so that others can use the store."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A key's value and the revision of its last change, as they were when read."""

    key: str
    value: bytes
    revision: int

    @property
    def version(self) -> Version:
        return Version(self.revision, self.value)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, keys in ascending order.

    `next_after` is the value of `after` for the next page, or None if this was the last. `revision` is the store's
    revision at which the page was read: list, then watch from the *first* page's revision, and no change is missed.
    """

    items: tuple[Versioned, ...]
    next_after: str | None
    revision: int


class EventKind(StrEnum):
    """Kind of change to a key. PUT covers creation and replacement."""

    PUT = "put"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change under a watched prefix; `value` is empty for a deletion (including one caused by a lost lease)."""

    kind: EventKind
    key: str
    value: bytes
    revision: int

    @property
    def version(self) -> Version:
        """The version of the key after this change."""
        return Version(self.revision, self.value)


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease: the keys created under it are deleted if it is not renewed for `ttl_seconds`."""

    lease_id: int
    ttl_seconds: float


RENEWALS_PER_LEASE = 3

RETRIES_PER_LEASE = 12
"""Number of times that a failed renewal is retried within the duration of a lease: often enough for one retry to
succeed if the store is available again before the lease expires."""


def renewal_seconds(lease_seconds: float, *, has_failed: bool = False) -> float:
    """Returns how long the holder of a lease waits before it renews the lease, or tries again."""
    return lease_seconds / (RETRIES_PER_LEASE if has_failed else RENEWALS_PER_LEASE)


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """A store's status. `members`: state of each endpoint, or its error.

    `doubt`: why the store may lose confirmed writes, and the remedy; "" if no reason is known. `refuses`: why it
    answers but accepts no changes, and the remedy; "" if no reason is known. `is_reported`: whether any member could
    report whether the store accepts changes.
    """

    kind: str
    version: str
    size_bytes: int
    members: Mapping[str, str] = field(default_factory=dict)
    doubt: str = ""
    refuses: str = ""
    is_reported: bool = True


class MetadataStore(Protocol):
    """Versioned keys with compare-and-swap. One instance belongs to one event loop.

    Any method may raise StoreUnavailable. If the answer to a change was lost, the method raises the subclass
    OutcomeUnknown; in that case the change may have happened.
    """

    async def get(self, key: str) -> Versioned | None:
        """Returns the latest value (linearizable, never a stale read), or None."""
        ...

    async def create(
        self, key: str, value: bytes, *, lease: Lease | None = None, unless: str | None = None
    ) -> Version:
        """Creates the key and returns its version. Raises KeyExists, ValueTooLarge, LeaseLost.

        If the key `unless` exists, nothing is created and KeyExists contains that key. Both are checked atomically.
        """
        ...

    async def replace(
        self, key: str, value: bytes, version: Version, *, unless: str | None = None
    ) -> Version:
        """Replaces the value if both the revision and the first bytes of the key's version match `version`; returns the
        new version.

        If the key `unless` exists, nothing is changed and KeyExists contains that key. All conditions are checked
        atomically.

        A key that was created under a lease stays attached to the lease. Raises VersionConflict, NoSuchKey,
        ValueTooLarge; in these cases nothing was changed.
        """
        ...

    async def delete(self, key: str, version: Version, *, unless: str | None = None) -> None:
        """Deletes the key if it is at `version`. If the key `unless` exists, nothing is deleted and KeyExists contains
        that key. Raises VersionConflict, NoSuchKey."""
        ...

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX) -> Page:
        """Returns a page of the keys that start with `prefix` and are greater than `after`, ascending.

        The page has at most `limit` keys, and fewer if their values are large, even if more keys follow (`list_some`).
        A key that exists during the whole listing is returned exactly once. A listing that fails part-way raises an
        error; it is never silently cut short (rule B3 depends on it).
        """
        ...

    def watch(self, prefix: str, *, after_revision: int | None = None) -> AsyncGenerator[WatchEvent, None]:
        """Yields every change under `prefix` with revision > `after_revision` (None: from now), in order.

        Reconnects automatically, and neither misses nor repeats a change. Raises WatchCompacted if the history is no
        longer kept, or if the store has reverted to an older copy without that revision: list again and watch from
        there. The watch is in place when the first `__anext__` is awaited; close the iterator (`aclose`) when done.
        """
        ...

    async def grant_lease(self, ttl_seconds: float) -> Lease:
        """Grants a new lease, valid for `ttl_seconds` from now (a store may round up to whole seconds)."""
        ...

    async def keep_lease(self, lease: Lease) -> None:
        """Renews the lease once, for its full duration. Raises LeaseLost if it has already expired."""
        ...

    async def lease_left(self, key: str) -> float | None:
        """Returns the seconds until a key's lease expires if it is not renewed; None if the key does not exist or has
        no lease."""
        ...

    async def revoke_lease(self, lease: Lease) -> None:
        """Ends the lease and deletes its keys at once. An expired lease is not an error."""
        ...

    async def health(self) -> StoreHealth:
        """Checks the store's status. Raises StoreTooOld. Members that do not answer are reported, but do not cause an
        error."""
        ...

    async def close(self) -> None:
        """Releases connections and threads. Closing twice is fine; leases are left to expire."""
        ...


async def list_all(
    store: MetadataStore, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX
) -> AsyncGenerator[Versioned, None]:
    """Yields every key that starts with `prefix` and is greater than `after`, in ascending order; reads pages of at
    most `limit` keys.

    A listing that fails part-way raises an error; it is never silently cut short. A long listing pauses after each page
    for as long as that page took.
    """
    seconds = asyncio.get_running_loop().time
    for number in itertools.count(1):
        began = seconds()
        page = await store.list_page(prefix, after=after, limit=limit)
        took = seconds() - began
        for item in page.items:
            yield item
        if page.next_after is None:
            return
        after = page.next_after
        if number >= PAGES_WITHOUT_REST and took > 0:
            await asyncio.sleep(took)


async def list_some(
    store: MetadataStore, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX
) -> Page:
    """Returns the first `limit` keys of a listing, read from as many pages as necessary, with the revision of the first
    page."""
    page = await store.list_page(prefix, after=after, limit=limit)
    while page.next_after is not None and len(page.items) < limit:
        rest = await store.list_page(prefix, after=page.next_after, limit=limit - len(page.items))
        page = Page(page.items + rest.items, rest.next_after, page.revision)
    return page


def check_value(key: str, value: bytes) -> None:
    """Raises ValueTooLarge for a value that is too large. Every implementation calls this before it sends anything."""
    if len(value) > VALUE_BYTES_MAX:
        raise ValueTooLarge(key, len(value), VALUE_BYTES_MAX)


def prefix_end(prefix: bytes) -> bytes:
    """Returns the smallest byte string greater than all byte strings with this prefix. If the prefix is empty or
    consists only of 0xff, returns KEY_END, which is greater than all texts."""
    raised = prefix.rstrip(b"\xff")
    return raised[:-1] + bytes([raised[-1] + 1]) if raised else KEY_END
