"""How a task reads: in pages as large as pays."""

from __future__ import annotations

import pytest

from bookie.wire import FRAME_BYTES_MAX
from spark.credentials import Access
from spark.executors.reading import record_batches
from spark.planning.ranges import EntryRange
from tests.spark.conftest import Cluster


@pytest.mark.parametrize("entry_bytes", [80, 1000])
def test_a_page_is_two_full_frames(cluster: Cluster, entry_bytes: int) -> None:
    frame_entries, frames = FRAME_BYTES_MAX // entry_bytes, 6
    entries = frames * frame_entries
    with cluster.writer(write_quorum=3) as writer:
        writer.append_batch([bytes(entry_bytes)] * entries)
    wanted = [EntryRange(writer.ledger_id, 0, entries - 1)]
    batches = record_batches(Access(cluster.uri), wanted, ["entry_id", "payload"])
    assert [batch.num_rows for batch in batches] == [2 * frame_entries] * (frames // 2)
