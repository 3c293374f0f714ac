"""A bookie with spans stores what a bookie without them stores."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bookie.index.index import Index
from bookie.storage.traced_bookie import TracedBookie
from bookie.wire.messages import Status
from tests.bookie.bookies import append, config_of, submit
from tests.bookie.entries import frame_of
from tests.bookie.logs import INCARNATION
from tests.bookie.notes import note_of, noted, record_of
from tests.bookie.slow_disk import SlowSyncDisk


async def test_a_note_that_is_synced_in_one_group_with_entries_ends_nothing(tmp_path: Path) -> None:
    """Nobody waits for it, so it has no answer whose span could be the parent of the sync's."""
    seen, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(seen))
    disk, index = SlowSyncDisk(tmp_path / "log"), Index(made(tmp_path / "index"))
    config = config_of(tmp_path, tracing=provider)
    bookie = await TracedBookie.open(config, disk, index, INCARNATION)
    try:
        record = record_of(7)
        assert await append(bookie, noted(record, [0])) == [Status.OK]
        disk.go_on.clear()
        first = submit(bookie, frame_of(8, [0]))
        bookie.append_note(noted(record.closed(0, 20), []))
        together = submit(bookie, frame_of(9, [0]))
        disk.go_on.set()
        assert [await first, await together] == [(Status.OK, "")] * 2
        assert sorted(bookie.index.notes.of(7).values()) == [note_of(record.closed(0, 20))]
        assert not bookie.failed.done()
    finally:
        await bookie.close()
    assert len([span for span in seen.get_finished_spans() if span.name == "bookie.sync"]) == 3


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory
