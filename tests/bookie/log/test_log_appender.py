"""The log's end grows by records into space that was prepared for many of them."""

from __future__ import annotations

from random import Random

import pytest

from bookie.log.appender import LogAppender
from bookie.log.format import record_bytes
from tests.bookie.logs import INCARNATION, record_of, records_in, use_small_sizes
from tests.bookie.simulated_disk import SimulatedDisk

RECORDS = [record_of(1, [n]) for n in range(10)]
RECORD_BYTES = record_bytes(RECORDS[0])


def test_space_is_prepared_once_for_all_the_records_that_fit_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every small group would write so much more than itself."""
    use_small_sizes(monkeypatch, segment=100_000, group=4000, step=4 * RECORD_BYTES)
    disk = SimulatedDisk(Random(0))
    appender = LogAppender(disk, INCARNATION, 0)
    writes = []
    for record in RECORDS:
        before = disk.operations
        appender.append([record], [record_bytes(record)])
        writes.append(disk.operations - before)
    assert writes == [2, 1, 1, 1, 2, 1, 1, 1, 2, 1]
    appender.seal()
    assert records_in(disk) == RECORDS
