"""The client of a task, and the event loop shared by all tasks of one Python worker.

Spark runs many tasks in one worker. gRPC reports cancelled calls even after their client is closed, and writes
complaints to stderr if their loop is closed too. So the loop is kept until the process ends.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

from ledgers import ClientConfig
from ledgers.aio import LedgerClient
from ledgers.loop_thread import LoopThread, PageSource

from ..executor_access import ExecutorAccess
from .worker_memory import keep_for_next_tasks

MIB = 1024 * 1024

PAGE_BYTES = 15 * MIB // 4
"""A page of this size holds three full frames and the other fields of their entries, if each entry has 80 bytes or
more; a page cannot hold four. A page costs the client and the bookies about the same, whatever its size."""

CONFIG = ClientConfig(page_bytes=PAGE_BYTES, read_ahead_pages=4, read_ahead_bytes_max=16 * MIB)
"""Settings of a task's client. The limits on read-ahead bound the task's memory, whatever the size of the ledger."""

T = TypeVar("T")


def read_with_client(
    access: ExecutorAccess, read: Callable[[LedgerClient], AsyncGenerator[T, None]]
) -> Iterator[T]:
    """Calls `read` with a client and yields the results. The client is always closed at the end."""
    thread = _loop_of(os.getpid())
    with access.uri() as uri:
        config = replace(CONFIG, encryption_key=access.encryption_key)
        client = LedgerClient(uri, config=config)
        source = PageSource(read(client))
        try:
            while (page := thread.run(source.next)) is not None:
                yield page
        finally:
            thread.run(partial(_end, source, client))


async def _end(source: PageSource[T], client: LedgerClient) -> None:
    try:
        await source.end()
    finally:
        await client.close()


@cache
def _loop_of(_pid: int) -> LoopThread:
    """Returns the loop thread of this process. Each process needs its own, because threads do not survive fork()."""
    keep_for_next_tasks()
    return LoopThread()
