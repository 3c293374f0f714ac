"""What is handed to the loop's thread comes there in the order in which it was appended."""

from __future__ import annotations

from concurrent.futures import Future

from ledgers.blocking.bulk_writer import AppendQueue, AppendRun, QueuedBatch
from ledgers.writing.checked_batch import CheckedBatch


def test_entries_that_are_awaited_and_entries_that_are_not_keep_their_order_and_each_its_future() -> None:
    queue: AppendQueue[bytes] = AppendQueue()
    futures: list[Future[int]] = [Future() for _ in range(3)]
    batch = CheckedBatch([b"4", b"5"], 10)
    queue.add(b"0", 1, futures[0])
    queue.add(b"1", 1, futures[1])
    queue.add(b"2", 1, None)
    queue.add(b"3", 1, None)
    queue.add_batch(batch, None)
    queue.add(b"6", 1, None)
    queue.add(b"7", 1, futures[2])
    assert queue.take() == [
        AppendRun([b"0", b"1"], futures[:2], 2),
        AppendRun([b"2", b"3"], [], 2, are_awaited=False),
        QueuedBatch(batch, None),
        AppendRun([b"6"], [], 1, are_awaited=False),
        AppendRun([b"7"], futures[2:], 1),
    ]
    assert queue.take() == []
