"""A log on a disk, driven to its end: what a test needs to write one, stop or crash, and read it back."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from bookie.disk.disk import Disk
from bookie.disk.reserve import Reserve
from bookie.log import appender as appender_module
from bookie.log import group_commit as writer_module
from bookie.log.format import BookieLogRecord, RecordKind
from bookie.log.group_commit import BookieLogWriter, Written
from bookie.log.log_replay import replay
from bookie.log.record_reader import Found
from tests.bookie.entries import frame_of

INCARNATION = "5f0e8e6c-66b0-4f3e-9d0c-2b1f6f0d8a11"
WAIT_SECONDS_MAX = 20.0


def record_of(ledger_id: int, entry_ids: Iterable[int], payload_bytes: int = 20) -> BookieLogRecord:
    frame = frame_of(ledger_id, entry_ids, payload_bytes=payload_bytes, lac=-1)
    return BookieLogRecord(RecordKind.ENTRIES, ledger_id, frame.columns, frame.last_add_confirmed)


def fence_of(ledger_id: int) -> BookieLogRecord:
    return BookieLogRecord(RecordKind.FENCE, ledger_id)


@dataclass
class Reports:
    """Everything a LogWriter has reported, and a way to wait for it."""

    durable: list[Written] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    refused: list[BookieLogRecord] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    next_position: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def acknowledged(self) -> list[BookieLogRecord]:
        return [written.record for written in self.durable]

    def on_durable(self, written: Sequence[Written], next_position: int) -> None:
        with self.changed:
            self.durable += written
            self.groups.append(len(written))
            self.next_position = next_position
            self.changed.notify_all()

    def on_written(self, written: Sequence[Written]) -> None:
        with self.changed:
            self.written += written
            self.changed.notify_all()

    def on_refused(self, refused: Sequence[tuple[object, BookieLogRecord]], error: OSError) -> None:
        with self.changed:
            self.refused += [record for _, record in refused]
            self.changed.notify_all()

    def on_failure(self, error: Exception) -> None:
        with self.changed:
            self.failures.append(error)
            self.changed.notify_all()

    def wait_for(self, *, durable: int = 0, refused: int = 0, failures: int = 0, written: int = 0) -> None:
        """Returns when so many records are durable, refused and written and so many failures were reported."""

        def enough() -> bool:
            counts = (len(self.durable), len(self.refused), len(self.failures), len(self.written))
            return all(
                have >= want for have, want in zip(counts, (durable, refused, failures, written), strict=True)
            )

        with self.changed:
            assert self.changed.wait_for(enough, WAIT_SECONDS_MAX)


def writer_on(
    disk: Disk, segment: int = 0, incarnation: str = INCARNATION, reserve: Reserve | None = None
) -> tuple[BookieLogWriter, Reports]:
    reports = Reports()
    writer = BookieLogWriter(
        disk,
        incarnation,
        segment,
        on_durable=reports.on_durable,
        on_refused=reports.on_refused,
        on_failure=reports.on_failure,
        on_written=reports.on_written,
        reserve=reserve,
    )
    return writer, reports


@contextmanager
def writing(
    disk: Disk, segment: int = 0, reserve: Reserve | None = None
) -> Iterator[tuple[BookieLogWriter, Reports]]:
    """A writer that has begun, and is stopped in the end."""
    writer, reports = writer_on(disk, segment, reserve=reserve)
    writer.start()
    try:
        yield writer, reports
    finally:
        writer.stop()


def write_each(disk: Disk, records: Sequence[BookieLogRecord]) -> None:
    """Each record is a group of its own, so each says that those before it were on disk."""
    with writing(disk) as (writer, reports):
        for n, record in enumerate(records, 1):
            writer.submit(record, 0)
            reports.wait_for(durable=n)


def write_all(
    disk: Disk, records: Sequence[BookieLogRecord], segment: int = 0, reserve: Reserve | None = None
) -> Reports:
    """Submits everything, then writes it: groups are as full as they may be, the same each time."""
    writer, reports = writer_on(disk, segment, reserve=reserve)
    for record in records:
        writer.submit(record, record)
    writer.start()
    writer.stop()
    return reports


def found_in(disk: Disk, from_position: int = 0) -> list[Found]:
    return list(replay(disk, INCARNATION, from_position))


def records_in(disk: Disk, from_position: int = 0) -> list[BookieLogRecord]:
    return [found.record for found in found_in(disk, from_position)]


def use_small_sizes(
    monkeypatch: pytest.MonkeyPatch, *, segment: int = 2048, group: int = 512, step: int = 256
) -> None:
    """Makes segments roll and groups fill after a few records."""
    monkeypatch.setattr(appender_module, "SEGMENT_BYTES_MAX", segment)
    monkeypatch.setattr(writer_module, "GROUP_BYTES_MAX", group)
    monkeypatch.setattr(appender_module, "SMALL_GROUP_BYTES", group // 2)
    monkeypatch.setattr(appender_module, "ZERO_STEP_BYTES", step)
    monkeypatch.setattr(appender_module, "RESERVE_STEP_BYTES", step)
