"""How a task reads: in pages as large as pays, whose memory is used again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from bookie.wire import FRAME_BYTES_MAX
from spark.executor_access import ExecutorAccess
from spark.executors import worker_memory
from spark.executors.range_reader import record_batches
from spark.executors.task_client import PAGE_BYTES
from spark.planning.ranges import LedgerRange
from tests.spark.conftest import Cluster


@pytest.mark.parametrize("entry_bytes", [80, 1000])
def test_a_page_is_three_full_frames(cluster: Cluster, entry_bytes: int) -> None:
    frame_entries, frames = FRAME_BYTES_MAX // entry_bytes, 6
    entries = frames * frame_entries
    with cluster.writer(write_quorum=3) as writer:
        writer.append_batch([bytes(entry_bytes)] * entries)
    wanted = [LedgerRange(writer.ledger_id, 0, entries - 1)]
    batches = record_batches(ExecutorAccess(cluster.uri), wanted, ["entry_id", "payload"])
    assert [batch.num_rows for batch in batches] == [3 * frame_entries] * (frames // 3)


FAULTS_OF_PAGES = """
import runpy
from resource import RUSAGE_SELF, getrusage
keep_for_next_tasks = runpy.run_path({!r})["keep_for_next_tasks"]  # alone: threads of libraries allocate, too
{}
for _ in range(20):
    before = getrusage(RUSAGE_SELF).ru_minflt
    pages = [bytearray({}) for _ in range(4)]
    del pages
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_pages_take_the_memory_of_those_before_them() -> None:
    assert page_faults("") > 1000
    assert page_faults("keep_for_next_tasks()") < 100


def page_faults(first: str) -> int:
    """Of four pages, after many others."""
    code = FAULTS_OF_PAGES.format(worker_memory.__file__, first, PAGE_BYTES)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


COLLECTED_AFTER_A_TASK = """
import gc
from spark.executor_access import ExecutorAccess
from spark.executors.range_reader import record_batches
from spark.planning.ranges import LedgerRange
imported = len(gc.get_objects())
assert list(record_batches(ExecutorAccess({!r}), [LedgerRange({}, 0, 0)], ["payload"]))
print(len(gc.get_objects()) / imported)
"""


def test_what_is_imported_is_no_garbage_to_be_looked_for_after_each_task(cluster: Cluster) -> None:
    with cluster.writer(write_quorum=3) as writer:
        writer.append(b"entry")
    code = COLLECTED_AFTER_A_TASK.format(cluster.uri, writer.ledger_id)
    assert float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) < 0.2
