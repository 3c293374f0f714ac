"""Lease locks: a key that one bookie holds at a time, for the office of auditor, or for re-replicating a ledger.

It keeps others from doing the same work. Two holders would be safe: every change is a compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .. import settled_writes
from ..errors import KeyExists, NoSuchKey, VersionConflict
from ..records import records_pb2 as pb
from ..records.ledger_record import BookieRef
from ..records.unreadable import parsed
from ..store import Lease, MetadataStore

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Where a bookie was called in vain, and why. `address` is empty of an auditor that did not tell it yet."""

    address: str
    why: str

    def is_at(self, address: str) -> bool:
        """Whether this says something of a bookie that is at this address now."""
        return self.address in ("", address)


@dataclass(frozen=True, slots=True)
class LeaseLock:
    """Holder of a lease lock, since when, and how much was copied so far.

    `unreachable`: live bookies that the auditor cannot reach, by name. `silent_cursors`: those that count for their
    log's retention no more, as LOG/CURSOR.
    """

    bookie: BookieRef
    since_ms: int
    bytes_done: int = 0
    unreachable: Mapping[str, Unreachable] = field(default_factory=dict)
    silent_cursors: tuple[str, ...] = ()


async def take(store: MetadataStore, key: str, holder: LeaseLock, lease: Lease) -> int | None:
    """Acquires the lock; returns the version of its key, None if another bookie holds it. Raises MetadataError."""
    value = _encode(holder)
    try:
        return await store.create(key, value, lease=lease)
    except KeyExists:
        found = await store.get(key)
        return found.version if found is not None and found.value == value else None


async def tell(store: MetadataStore, key: str, holder: LeaseLock, version: int) -> int | None:
    """Updates the holder's progress; returns the new version, None if the lock is lost. Raises MetadataError."""
    try:
        return await settled_writes.replace(store, key, _encode(holder), version)
    except (NoSuchKey, VersionConflict):
        return None


async def leave(store: MetadataStore, key: str, version: int) -> None:
    """Releases the lock. Raises MetadataError."""
    await settled_writes.delete_unless_changed(store, key, version)


async def read(store: MetadataStore, key: str) -> LeaseLock | None:
    """Reads the holder, if there is one. Raises MetadataError."""
    found = await store.get(key)
    return None if found is None else decode(key, found.value)


def decode(key: str, value: bytes) -> LeaseLock:
    """Decodes a holder. Raises BadRecord."""
    message = parsed(pb.Holder, key, value, FORMAT_VERSION, "holder")
    bookie = BookieRef(message.bookie_id, message.incarnation)
    unreachable = {
        name: Unreachable(message.called_at.get(name, ""), why) for name, why in message.unreachable.items()
    }
    return LeaseLock(bookie, message.since_ms, message.bytes_done, unreachable, tuple(message.silent_cursors))


def _encode(holder: LeaseLock) -> bytes:
    return pb.Holder(
        format_version=FORMAT_VERSION,
        bookie_id=holder.bookie.bookie_id,
        incarnation=holder.bookie.incarnation,
        since_ms=holder.since_ms,
        bytes_done=holder.bytes_done,
        unreachable={name: one.why for name, one in holder.unreachable.items()},
        called_at={name: one.address for name, one in holder.unreachable.items()},
        silent_cursors=holder.silent_cursors,
        nonce=settled_writes.new_nonce(),
    ).SerializeToString()
