"""R6: a segment that was dropped is told from one that was lost, by the newest record of those that stay."""

from __future__ import annotations

from random import Random

import pytest

from bookie.errors import DamagedLog
from bookie.log import manifest, segments
from bookie.log.format import SEGMENT_HEADER, Record
from bookie.log.manifest import LogManifest
from tests.bookie.logs import record_of, records_in, use_small_sizes, write_all
from tests.bookie.simulated_disk import SimulatedDisk


def disk_with(monkeypatch: pytest.MonkeyPatch, *records: Record) -> SimulatedDisk:
    """A stopped log with each of these records in a segment of its own."""
    use_small_sizes(monkeypatch, segment=SEGMENT_HEADER.size + 1, group=1)
    disk = SimulatedDisk(Random(0))
    write_all(disk, records)
    assert segments.numbers(disk) == list(range(len(records)))
    return disk


def record(entry_id: int) -> Record:
    return record_of(1, [entry_id])


def test_a_segment_that_was_dropped_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = manifest.to_record([1])
    disk = disk_with(monkeypatch, record(0), record(1), said, record(3))
    disk.lose(segments.name_of(0))
    assert records_in(disk) == [record(1), said, record(3)]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_segment_that_was_kept_or_came_later_is_missed(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    """R6: nobody has said that it was given up; of what is behind it, it says nothing."""
    disk = disk_with(monkeypatch, record(0), record(1), manifest.to_record([1]), record(3), record(4))
    disk.lose(segments.name_of(lost))
    with pytest.raises(DamagedLog, match="is missing, yet later ones exist") as refused:
        records_in(disk)
    assert refused.value.file == segments.name_of(lost)


def test_the_newest_record_that_names_segments_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [manifest.to_record(kept) for kept in ([0], [0, 1])]
    assert manifest.newest(disk_with(monkeypatch, record(0))) is None
    disk = disk_with(monkeypatch, record(0), said[0], said[1], record(3))
    assert manifest.newest(disk) == LogManifest(2, frozenset([0, 1]))
