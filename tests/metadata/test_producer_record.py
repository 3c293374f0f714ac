"""Snapshots of producers: how large they can be, and that the first one of a position stays."""

from __future__ import annotations

import pytest

from metadata.errors import BadRecord
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import records_pb2 as pb
from metadata.records.logs import producer_record
from metadata.records.logs.log_record import PRODUCER_BYTES_MAX
from metadata.records.logs.producer_record import (
    EARLIER_RUNS_MAX,
    FORGOTTEN_MAX,
    PRODUCERS_MAX,
    RUNS_OF_ONE_MAX,
    Heard,
    ProducerSnapshot,
    ProducerStore,
    Run,
)
from metadata.store import VALUE_BYTES_MAX

LOG = b"l" * 16
FEW = ProducerSnapshot(
    (("a", Heard([Run(1, 2, 1)], 3)), ("b", Heard([Run(0, 0, 2), Run(3, 2, 1)], 6))),
    (b"12345678", b"abcdefgh"),
    7,
)
FAR = 2**62
"""What is from here on takes as many bytes as anything."""


def of_the_most_runs(n: int) -> Heard:
    """All earlier ones that a log may know of are those of its first producers."""
    count = 1 + max(0, min(RUNS_OF_ONE_MAX - 1, EARLIER_RUNS_MAX - n * (RUNS_OF_ONE_MAX - 1)))
    step = FAR // RUNS_OF_ONE_MAX
    return Heard([Run(FAR + k * step, FAR + k * step, step) for k in range(count)], 2**63 - 1)


LARGEST = ProducerSnapshot(
    tuple((f"{n:0{PRODUCER_BYTES_MAX}}", of_the_most_runs(n)) for n in range(PRODUCERS_MAX)),
    (bytes(8),) * FORGOTTEN_MAX,
    2**63 - 1,
)


@pytest.mark.parametrize("snapshot", [ProducerSnapshot(), FEW, LARGEST], ids=["none", "few", "largest"])
def test_a_snapshot_comes_back_as_it_was(snapshot: ProducerSnapshot) -> None:
    assert producer_record.decode("k", producer_record.encode(snapshot)) == snapshot


def test_the_largest_snapshot_fits_a_value_of_the_store() -> None:
    assert len(producer_record.encode(LARGEST)) <= VALUE_BYTES_MAX


async def test_the_first_snapshot_of_a_position_stays_and_earlier_ones_are_dropped() -> None:
    store = ProducerStore(MemoryStore(MemoryData()), LOG)
    for position in (3, 20):
        await store.write(position, FEW)
        await store.write(position, ProducerSnapshot())
    assert [await store.read(position) for position in (3, 4, 20)] == [FEW, None, FEW]
    await store.drop_before(20)
    assert [await store.read(position) for position in (3, 20)] == [None, FEW]
    await store.drop_all()
    assert await store.read(20) is None


@pytest.mark.parametrize(
    "value",
    [
        pb.Producers(format_version=1, forgotten=b"1234567").SerializeToString(),
        b"\xff",
        *(
            pb.Producers(format_version=1, producers=[one]).SerializeToString()
            for one in (
                pb.Producer(name="a"),
                pb.Producer(name="a", sequences=[1], positions=[1], counts=[0]),
                pb.Producer(name="a", sequences=[1, 2], positions=[1], counts=[1, 1]),
                pb.Producer(name="a", sequences=[3, 2], positions=[1, 2], counts=[1, 1]),
                pb.Producer(name="a", sequences=[2, 3], positions=[1, 0], counts=[1, 1]),
                pb.Producer(name="a", sequences=[-1], positions=[0], counts=[1]),
            )
        ),
    ],
)
def test_what_cannot_be_trusted_is_refused(value: bytes) -> None:
    with pytest.raises(BadRecord, match="logproducers/6c6c"):
        producer_record.decode(f"logproducers/{LOG.hex()}/0", value)


@pytest.mark.parametrize("version", [0, 2])
def test_another_version_is_refused_in_words(version: int) -> None:
    value = pb.Producers(format_version=version).SerializeToString()
    with pytest.raises(BadRecord, match=f"producers' version {version}; this program supports 1"):
        producer_record.decode("k", value)
