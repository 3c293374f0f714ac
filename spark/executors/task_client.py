"""The client of a task, and the event loop that all tasks of one Python worker share.

Spark runs many tasks in one worker. gRPC reports cancelled calls even after their client is closed, and writes
complaints to stderr if their loop is closed too. So the loop lives as long as the process.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

from ledgers import ClientConfig
from ledgers.aio import LedgerClient
from ledgers.loop_thread import LoopThread, PageSource

from ..executor_access import ExecutorAccess

# Memory settings that a worker makes once, because Spark runs many tasks in it, one after another.
#
# The C library keeps the memory of pages for the next ones. By default glibc returns it to the kernel when a few pages
# are freed, and each page then begins with hundreds of page faults: they may take more time than all checks of the page
# together.
#
# The garbage collector skips all objects that exist by now, such as imported modules. Spark has it scan every object of
# the worker after each task, which may take as long as the task did.

KEPT_BYTES_MAX = 32 * 1024 * 1024
"""Free memory kept by each thread that allocates; it exceeds a task's read-ahead."""

MAPPED_BYTES_MIN = 8 * 1024 * 1024
"""Larger allocations than any message come from the kernel, and return to it at once."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_for_next_tasks() -> None:
    """From now on this process keeps freed memory (if the C library is glibc) and all objects that exist."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
    gc.freeze()


MIB = 1024 * 1024

PAGE_BYTES = 15 * MIB // 4
"""Holds three full frames of entries of 80 bytes or more, with their other fields; no page holds four. A page costs
client and bookies about the same, whatever its size."""

CONFIG = ClientConfig(page_bytes=PAGE_BYTES, read_ahead_pages=4, read_ahead_bytes_max=16 * MIB)
"""This read-ahead bounds a task's memory, whatever the size of the ledger."""

T = TypeVar("T")


def read_with_client(
    access: ExecutorAccess, read: Callable[[LedgerClient], AsyncGenerator[T, None]]
) -> Iterator[T]:
    """Yields from `read` with a client, which it always closes at the end."""
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
    """One loop thread per process, because threads do not survive fork()."""
    keep_for_next_tasks()
    return LoopThread()
