"""Snapshots of producers: how large they can be, and that the first one of a position stays."""

from __future__ import annotations

import pytest

from metadata.errors import BadRecord
from metadata.memory import MemoryData, MemoryStore
from metadata.records import records_pb2 as pb
from metadata.records.logs import producer_record
from metadata.records.logs.log_record import PRODUCER_BYTES_MAX
from metadata.records.logs.producer_record import (
    FORGOTTEN_MAX,
    PRODUCERS_MAX,
    Last,
    ProducerSnapshot,
    ProducerStore,
)
from metadata.store import VALUE_BYTES_MAX

LOG = b"l" * 16
FEW = ProducerSnapshot((("a", Last(1, 2, 1, 3)), ("b", Last(4, 5, 2, 6))), (b"12345678", b"abcdefgh"), 7)
LARGEST = ProducerSnapshot(
    tuple(
        (f"{n:0{PRODUCER_BYTES_MAX}}", Last(2**63 - 1, 2**63 - 1, 2**63 - 1, 2**63 - 1))
        for n in range(PRODUCERS_MAX)
    ),
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
        pb.Producers(format_version=2).SerializeToString(),
        pb.Producers(format_version=1, forgotten=b"1234567").SerializeToString(),
        pb.Producers(format_version=1, producers=[pb.Producer(name="a", run=0)]).SerializeToString(),
        b"\xff",
    ],
)
def test_what_cannot_be_trusted_is_refused(value: bytes) -> None:
    with pytest.raises(BadRecord, match="logproducers/6c6c"):
        producer_record.decode(f"logproducers/{LOG.hex()}/0", value)
