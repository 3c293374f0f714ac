"""A ledger read page by page from a bookie's log, beside `cat` of the same files, with and without the page cache."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bookie.disk.disk import OsDisk
from bookie.index.frame_locations import place_of_frame
from bookie.index.index import Index
from bookie.log.appender import LogAppender
from bookie.log.format import BookieLogRecord, RecordKind, record_bytes
from bookie.storage.page_reader import read_page
from bookie.storage.stored_frames import SegmentFiles
from bookie.wire.columnar_entries import Columns

BYTES = 2e9
ENTRY_BYTES, ENTRIES_PER_FRAME = 1000, 1000
PAGE_BYTES = 1024 * 1024
LEDGER = 1
INCARNATION = "00000000-0000-0000-0000-000000000000"
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


async def measure(scratch: Path, share: float) -> None:
    entries = _write(scratch, int(BYTES * share / ENTRY_BYTES / ENTRIES_PER_FRAME))
    for temperature in ("cold", "cold", "warm", "warm"):
        if temperature == "cold" and not _drop_caches():
            print("cold: the page cache cannot be dropped here")
            continue
        cat = _timed(lambda: subprocess.run(f"cat {scratch}/log/*.log > /dev/null", shell=True, check=True))
        if temperature == "cold":
            _drop_caches()
        read = _timed(lambda: _read(scratch, entries))
        rate = entries * ENTRY_BYTES / 1e6
        print(
            f"{temperature}: cat {rate / cat:.0f} MB/s, reading {rate / read:.0f} MB/s, share {cat / read:.2f}"
        )


def _write(scratch: Path, frames: int) -> int:
    for name in ("log", "index"):
        (scratch / name).mkdir()
    log, index = LogAppender(OsDisk(scratch / "log"), INCARNATION, 0), Index(scratch / "index")
    payload = os.urandom(ENTRY_BYTES) * ENTRIES_PER_FRAME
    lengths = struct.pack("<I", ENTRY_BYTES) * ENTRIES_PER_FRAME
    for first in range(0, frames * ENTRIES_PER_FRAME, ENTRIES_PER_FRAME):
        ids = struct.pack(f"<{ENTRIES_PER_FRAME}q", *range(first, first + ENTRIES_PER_FRAME))
        columns = Columns(ids, lengths, bytes(4 * ENTRIES_PER_FRAME), payload)
        record = BookieLogRecord(RecordKind.ENTRIES, LEDGER, columns)
        size = record_bytes(record)
        place = place_of_frame(columns, log.append([record], [size]), size)
        assert place is not None
        index.add(LEDGER, place)
    log.seal()
    index.begin_checkpoint()
    index.commit_checkpoint(log.position, [])
    index.end_checkpoint()
    index.close()
    log.close()
    return frames * ENTRIES_PER_FRAME


def _read(scratch: Path, entries: int) -> None:
    index, files, first = Index(scratch / "index"), SegmentFiles(OsDisk(scratch / "log")), 0
    while first < entries:
        places, through = index.page(LEDGER, first, entries - 1, (), PAGE_BYTES)
        page = read_page(files, places, LEDGER, first, through, PAGE_BYTES)
        assert len(page.columns) == page.covered_through - first + 1
        first = page.covered_through + 1
    index.close()


def _drop_caches() -> bool:
    os.sync()
    with suppress(OSError):
        DROP_CACHES.write_text("3")
        return True
    return False


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
