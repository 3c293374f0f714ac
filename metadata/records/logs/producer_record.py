"""The known producers of a log's records before a position. All processes that write a snapshot at a position write the
same snapshot, because all records before the position are confirmed by then."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap
from typing import NamedTuple

from ... import keys, settled_writes
from ...errors import BadRecord
from ...store import MetadataStore, list_all
from ...version import encode_record
from .. import records_pb2 as pb
from ..record_decoding import parse_record

FORMAT_VERSION = 1

PRODUCERS_MAX = 4096
"""Maximum number of producers that a log remembers."""

RUNS_OF_ONE_MAX = 1024
"""Maximum number of runs that a log remembers for one producer; earlier runs are forgotten."""

EARLIER_RUNS_MAX = 6000
"""Maximum total number of runs that a log remembers for all its producers, not counting the last run of each producer;
earlier runs are forgotten.

Even with names of the maximum length (PRODUCER_BYTES_MAX) and the maximum number of forgotten producers
(FORGOTTEN_MAX), everything that a log remembers fits into one value of the metadata store.
"""

DIGEST_BYTES = 8

FORGOTTEN_MAX = 16_384
"""Maximum number of forgotten producers that a log still recognizes."""


class Run(NamedTuple):
    """Records of a producer with consecutive sequences at consecutive positions: their number, the first sequence and
    the first position."""

    sequence: int
    position: int
    records: int

    @property
    def last_sequence(self) -> int:
        return self.sequence + self.records - 1

    def goes_on_in(self, other: Run) -> bool:
        """Returns whether `other` continues this run, so that the two form one run."""
        return (self.sequence + self.records, self.position + self.records) == other[:2]


@dataclass(slots=True)
class Heard:
    """A known producer: its last runs, in order. `heard_us`: when its last record was confirmed, in microseconds since
    1970."""

    runs: list[Run]
    heard_us: int

    def copy(self) -> Heard:
        return Heard(self.runs[:], self.heard_us)


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """Producers, in the order of their last records, oldest first; digests of forgotten producers, the earliest
    forgotten first; the total number of forgotten producers."""

    producers: tuple[tuple[str, Heard], ...] = ()
    forgotten: tuple[bytes, ...] = ()
    forgotten_count: int = 0


class ProducerStore:
    """The snapshots of one log. All methods raise MetadataError."""

    def __init__(self, store: MetadataStore, log: bytes) -> None:
        self._store = store
        self._log = log

    async def write(self, position: int, snapshot: ProducerSnapshot) -> None:
        """Writes the snapshot at a position, unless another process has already written it."""
        key = keys.log_producers_at(self._log, position)
        await settled_writes.create_unless_there(self._store, key, encode(snapshot))

    async def read(self, position: int) -> ProducerSnapshot | None:
        found = await self._store.get(keys.log_producers_at(self._log, position))
        return None if found is None else decode(found.key, found.value)

    async def latest(self, position: int) -> tuple[int, ProducerSnapshot] | None:
        """Returns the last snapshot at or before this position, and the snapshot's position."""
        last = keys.log_producers_at(self._log, position)
        found = [
            item async for item in list_all(self._store, keys.log_producers(self._log)) if item.key <= last
        ]
        if not found:
            return None
        key, value = found[-1].key, found[-1].value
        return int(key.rpartition("/")[2], 16), decode(key, value)

    async def drop_before(self, position: int) -> None:
        """Deletes the snapshots at earlier positions."""
        first_kept = keys.log_producers_at(self._log, position)
        async for item in list_all(self._store, keys.log_producers(self._log)):
            if item.key >= first_kept:
                return
            await settled_writes.delete_unless_changed(self._store, item.key, item.version)

    async def drop_all(self) -> None:
        """Deletes all snapshots of a deleted log."""
        async for item in list_all(self._store, keys.log_producers(self._log)):
            await settled_writes.delete_unless_changed(self._store, item.key, item.version)


def encode(snapshot: ProducerSnapshot) -> bytes:
    """Encodes the value of `logproducers/<identity>/<position>`."""
    return encode_record(
        pb.Producers(
            format_version=FORMAT_VERSION,
            producers=[
                pb.Producer(
                    name=name,
                    sequences=[run.sequence for run in heard.runs],
                    positions=[run.position for run in heard.runs],
                    counts=[run.records for run in heard.runs],
                    heard_us=heard.heard_us,
                )
                for name, heard in snapshot.producers
            ],
            forgotten=b"".join(snapshot.forgotten),
            forgotten_count=snapshot.forgotten_count,
            nonce=settled_writes.new_nonce(),
        )
    )


def decode(key: str, value: bytes) -> ProducerSnapshot:
    """Decodes a snapshot. Raises BadRecord."""
    message = parse_record(pb.Producers, key, value, FORMAT_VERSION, "producers'")
    digests = message.forgotten
    if len(digests) % DIGEST_BYTES:
        raise BadRecord(key, f"{len(digests)} bytes of digests")
    try:
        producers = tuple((one.name, _heard(one)) for one in message.producers)
    except ValueError as error:
        raise BadRecord(key, str(error)) from error
    forgotten = tuple(digests[n : n + DIGEST_BYTES] for n in range(0, len(digests), DIGEST_BYTES))
    return ProducerSnapshot(producers, forgotten, message.forgotten_count)


def _heard(one: pb.Producer) -> Heard:
    """Decodes a producer. Raises ValueError for invalid runs, such as runs whose sequences or positions do not
    increase."""
    runs = list(starmap(Run, zip(one.sequences, one.positions, one.counts, strict=True)))
    ends = [(0, 0), *((run.sequence + run.records, run.position + run.records) for run in runs)]
    rise = all(
        run.sequence >= end[0] and run.position >= end[1] for run, end in zip(runs, ends, strict=False)
    )
    if not (runs and rise and all(run.records >= 1 for run in runs)):
        raise ValueError(f"{runs} are not valid runs of a producer")
    return Heard(runs, one.heard_us)
