"""What is known of the producers of a log's records before a position. Whoever writes it at a position writes the same:
all records before it are confirmed then."""

from __future__ import annotations

from dataclasses import dataclass

from ... import keys, settled_writes
from ...errors import BadRecord, KeyExists
from ...store import MetadataStore, list_all
from .. import records_pb2 as pb
from ..unreadable import parsed

FORMAT_VERSION = 1

PRODUCERS_MAX = 4096
"""Producers that a log remembers. With the longest names (PRODUCER_BYTES_MAX), and all that it knows to have forgotten,
they fit a value of the metadata store."""

DIGEST_BYTES = 8

FORGOTTEN_MAX = 16_384
"""Producers of which a log still knows that it has forgotten them."""


@dataclass(frozen=True, slots=True)
class Last:
    """A producer's last record. `run`: so many of its sequences that end with this one are at as many positions that
    end with this one. `heard_us`: when it was confirmed, in microseconds since 1970.
    """

    sequence: int
    position: int
    run: int
    heard_us: int

    def __post_init__(self) -> None:
        if not (self.sequence >= 0 and self.position >= 0 and self.run >= 1):
            raise ValueError(
                f"no producer has sequence {self.sequence} at {self.position}, in a run of {self.run}"
            )


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """Producers with the last record of each, the one heard of the longest ago first; digests of those that were
    forgotten, the earliest first; how many were forgotten in all."""

    producers: tuple[tuple[str, Last], ...] = ()
    forgotten: tuple[bytes, ...] = ()
    forgotten_count: int = 0


class ProducerStore:
    """The snapshots of one log. All methods raise MetadataError."""

    def __init__(self, store: MetadataStore, log: bytes) -> None:
        self._store = store
        self._log = log

    async def write(self, position: int, snapshot: ProducerSnapshot) -> None:
        """Writes what is known at a position, unless somebody has done that."""
        key = keys.log_producers_at(self._log, position)
        try:
            await settled_writes.create(self._store, key, encode(snapshot))
        except KeyExists:
            return

    async def read(self, position: int) -> ProducerSnapshot | None:
        found = await self._store.get(keys.log_producers_at(self._log, position))
        return None if found is None else decode(found.key, found.value)

    async def drop_before(self, position: int) -> None:
        """Deletes those of earlier positions."""
        first_kept = keys.log_producers_at(self._log, position)
        async for item in list_all(self._store, keys.log_producers(self._log)):
            if item.key >= first_kept:
                return
            await settled_writes.delete_unless_changed(self._store, item.key, item.version)

    async def drop_all(self) -> None:
        """Deletes all, of a log that is deleted."""
        async for item in list_all(self._store, keys.log_producers(self._log)):
            await settled_writes.delete_unless_changed(self._store, item.key, item.version)


def encode(snapshot: ProducerSnapshot) -> bytes:
    """Encodes the value of `logproducers/<identity>/<position>`."""
    return pb.Producers(
        format_version=FORMAT_VERSION,
        producers=[
            pb.Producer(
                name=name,
                sequence=last.sequence,
                position=last.position,
                run=last.run,
                heard_us=last.heard_us,
            )
            for name, last in snapshot.producers
        ],
        forgotten=b"".join(snapshot.forgotten),
        forgotten_count=snapshot.forgotten_count,
        nonce=settled_writes.new_nonce(),
    ).SerializeToString()


def decode(key: str, value: bytes) -> ProducerSnapshot:
    """Decodes it. Raises BadRecord."""
    message = parsed(pb.Producers, key, value, FORMAT_VERSION, "producers'")
    digests = message.forgotten
    if len(digests) % DIGEST_BYTES:
        raise BadRecord(key, f"{len(digests)} bytes of digests")
    try:
        producers = tuple(
            (one.name, Last(one.sequence, one.position, one.run, one.heard_us)) for one in message.producers
        )
    except ValueError as error:
        raise BadRecord(key, str(error)) from error
    forgotten = tuple(digests[n : n + DIGEST_BYTES] for n in range(0, len(digests), DIGEST_BYTES))
    return ProducerSnapshot(producers, forgotten, message.forgotten_count)
