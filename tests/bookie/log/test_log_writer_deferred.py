"""Records whose sync was put off: reported as written, and as durable once a later sync covers them (rule B1)."""

from __future__ import annotations

from random import Random

import pytest

from bookie.log import group_commit as writer_module
from bookie.log.format import SEGMENT_HEADER, position_of, record_bytes
from bookie.log.group_commit import BookieLogWriter
from tests.bookie.logs import found_in, record_of, records_in, use_small_sizes, writer_on, writing
from tests.bookie.simulated_disk import SimulatedDisk

RECORDS = [record_of(1, [n]) for n in range(4)]
RECORD_BYTES = record_bytes(RECORDS[0])


def test_a_deferred_record_is_reported_written_and_durable_with_the_next_sync() -> None:
    disk = SimulatedDisk(Random(0))
    writer, reports = writer_on(disk)
    for record in RECORDS[:2]:
        writer.submit(record, record, deferred_sync=True)
    writer.start()
    reports.wait_for(written=2)
    assert reports.durable == []
    writer.submit(RECORDS[2], RECORDS[2])
    reports.wait_for(durable=3)
    assert reports.acknowledged == RECORDS[:3]
    assert len(reports.written) == 2
    writer.stop()


def test_a_deferred_record_is_synced_after_a_while_though_nobody_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_module, "DEFERRED_SYNC_SECONDS_MAX", 0.01)
    writer, reports = writer_on(SimulatedDisk(Random(0)))
    writer.submit(RECORDS[0], 0, deferred_sync=True)
    writer.start()
    reports.wait_for(durable=1)
    assert len(reports.written) == 1
    writer.stop()


def test_a_deferred_record_is_synced_after_a_while_though_others_keep_coming(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(BookieLogWriter, "_now", lambda _: now)
    with writing(SimulatedDisk(Random(0))) as (writer, reports):
        for n in range(3):
            writer.submit(RECORDS[n], n, deferred_sync=True)
            reports.wait_for(written=n + 1)
            now += 0.4 * writer_module.DEFERRED_SYNC_SECONDS_MAX
        writer.submit(RECORDS[3], 3, deferred_sync=True)
        reports.wait_for(durable=4)
        assert len(reports.written) == 3, "the last one was due"


def test_a_turn_that_comes_too_early_for_a_deferred_sync_reports_nothing_again() -> None:
    writer, reports = writer_on(SimulatedDisk(Random(0)))
    writer.submit(RECORDS[0], 0, deferred_sync=True)
    writer._commit(writer._next_group() or [])
    writer._commit([])
    assert (len(reports.written), reports.durable) == (1, [])
    writer.stop()


def test_a_record_that_nobody_waits_for_is_reported_once_and_no_sync_is_made_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, disk = 0.0, SimulatedDisk(Random(0))
    monkeypatch.setattr(BookieLogWriter, "_now", lambda _: now)
    writer, reports = writer_on(disk)
    writer.submit(RECORDS[0], None, deferred_sync=True)
    writer._commit(writer._next_group() or [])
    now = 2 * writer_module.DEFERRED_SYNC_SECONDS_MAX
    writer._commit([])
    assert (len(reports.written), reports.durable, writer.syncs) == (1, [], 0)
    for n in (1, 2):  # one that is deferred after it has its own time
        writer.submit(RECORDS[n], n, deferred_sync=n == 1)
        writer._commit(writer._next_group() or [])
        assert writer.syncs == n - 1
    assert [one.record for one in reports.durable] == RECORDS[1:3]
    writer.stop()
    assert records_in(disk) == RECORDS[:3]


def test_deferred_records_past_their_bound_are_synced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "UNSYNCED_BYTES_MAX", 2 * RECORD_BYTES)
    with writing(SimulatedDisk(Random(0))) as (writer, reports):
        writer.submit(RECORDS[0], 0, deferred_sync=True)
        reports.wait_for(written=1)
        writer.submit(RECORDS[1], 0, deferred_sync=True)
        reports.wait_for(durable=2)
        assert len(reports.written) == 1, "what is on disk is not reported as written"


def test_what_the_end_of_a_segment_has_synced_is_durable_and_nothing_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B2: a checkpoint at what was reported is not ahead of the disk."""
    use_small_sizes(monkeypatch, segment=SEGMENT_HEADER.size + 2 * RECORD_BYTES)
    with writing(SimulatedDisk(Random(0))) as (writer, reports):
        for n, record in enumerate(RECORDS[:3], 1):
            writer.submit(record, 0, deferred_sync=True)
            reports.wait_for(written=n)
        assert reports.acknowledged == RECORDS[:2]
        assert reports.next_position <= reports.written[-1].position


def test_deferred_records_are_durable_when_the_writer_has_stopped() -> None:
    disk = SimulatedDisk(Random(0))
    writer, reports = writer_on(disk)
    writer.submit(RECORDS[0], 0, deferred_sync=True)
    writer.start()
    writer.stop()
    assert reports.acknowledged == RECORDS[:1]
    assert records_in(disk) == RECORDS[:1]


def test_a_full_disk_takes_back_a_group_and_keeps_the_deferred_ones_before_it() -> None:
    """Cutting the segment back syncs it, so what stood before is durable then."""
    disk = SimulatedDisk(Random(0), capacity_bytes=SEGMENT_HEADER.size + 2 * RECORD_BYTES)
    writer, reports = writer_on(disk)
    writer.submit(RECORDS[0], 0, deferred_sync=True)
    writer.start()
    reports.wait_for(written=1)
    for record in RECORDS[1:4]:
        writer.submit(record, 0, deferred_sync=True)
    reports.wait_for(refused=1)
    writer.stop()
    assert records_in(disk)[: len(reports.durable)] == reports.acknowledged
    assert reports.acknowledged[0] == RECORDS[0]
    assert len(reports.acknowledged) + len(reports.refused) == 4


def test_a_record_says_no_more_was_on_disk_than_was_synced() -> None:
    """B2: `synced` of a record behind deferred ones is where the last sync ended, or a torn tail is damage."""
    disk = SimulatedDisk(Random(0))
    with writing(disk) as (writer, reports):
        writer.submit(RECORDS[0], 0)
        reports.wait_for(durable=1)
        writer.submit(RECORDS[1], 0, deferred_sync=True)
        reports.wait_for(written=1)
        writer.submit(RECORDS[2], 0, deferred_sync=True)
        reports.wait_for(written=2)
    synced = [found.header.synced for found in found_in(disk)]
    assert synced == [position_of(0, SEGMENT_HEADER.size + at) for at in (0, RECORD_BYTES, RECORD_BYTES)]
