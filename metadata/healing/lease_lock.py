"""Lease locks: a key that one bookie holds at a time, for the role of auditor or for re-replicating a ledger.

The lock keeps other bookies from doing the same work. Two holders at once would do no harm, because every change is a
compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..records import records_pb2 as pb
from ..records.ledger_record import BookieRef
from ..records.record_decoding import parse_record
from ..store import MetadataStore
from ..version import encode_record

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The address at which a bookie could not be reached, and why. `address` is empty if the auditor runs an older
    program that does not report it."""

    address: str
    why: str

    def is_at(self, address: str) -> bool:
        """Returns whether this report applies to a bookie whose address is now `address`."""
        return self.address in ("", address)


@dataclass(frozen=True, slots=True)
class LeaseLock:
    """The holder of a lease lock, when it took the lock, and how many bytes it has copied.

    `unreachable`: live bookies that the auditor cannot reach, by name. `silent_cursors`: cursors, as LOG/CURSOR, that
    no longer count for their log's retention. `counts`: the auditor's counts of all ledgers; `counted_ms`: when they
    were made.
    """

    bookie: BookieRef
    since_ms: int
    bytes_done: int = 0
    unreachable: Mapping[str, Unreachable] = field(default_factory=dict)
    silent_cursors: tuple[str, ...] = ()
    counts: str = ""
    counted_ms: int = 0


async def read(store: MetadataStore, key: str) -> LeaseLock | None:
    """Returns the holder, or None if there is none. Raises MetadataError."""
    found = await store.get(key)
    return None if found is None else decode(key, found.value)


def decode(key: str, value: bytes) -> LeaseLock:
    """Decodes a holder. Raises BadRecord."""
    message = parse_record(pb.Holder, key, value, FORMAT_VERSION, "holder")
    bookie = BookieRef(message.bookie_id, message.incarnation)
    unreachable = {
        name: Unreachable(message.called_at.get(name, ""), why) for name, why in message.unreachable.items()
    }
    return LeaseLock(
        bookie,
        message.since_ms,
        message.bytes_done,
        unreachable,
        tuple(message.silent_cursors),
        message.counts,
        message.counted_ms,
    )


def encode(holder: LeaseLock, nonce: bytes) -> bytes:
    """Encodes a holder, with the nonce of its lease."""
    return encode_record(
        pb.Holder(
            format_version=FORMAT_VERSION,
            bookie_id=holder.bookie.bookie_id,
            incarnation=holder.bookie.incarnation,
            since_ms=holder.since_ms,
            bytes_done=holder.bytes_done,
            unreachable={name: one.why for name, one in holder.unreachable.items()},
            called_at={name: one.address for name, one in holder.unreachable.items()},
            silent_cursors=holder.silent_cursors,
            counts=holder.counts,
            counted_ms=holder.counted_ms,
            nonce=nonce,
        )
    )
