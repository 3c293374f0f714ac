"""Runs a daemon until SIGTERM or SIGINT, or the end of its standard input. On SIGHUP, it reloads its secrets."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine

from metadata.secret_file import read_all_again


async def until_stopped(
    work: Coroutine[object, object, None],
    *,
    on_stop: Callable[[], None] = lambda: None,
    until_stdin_closes: bool = False,
) -> None:
    """Runs `work`, and cancels it on SIGTERM or SIGINT, even while it is starting. Raises the errors of `work`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if not sys.stdin.isatty():  # on a terminal, SIGHUP means that the terminal was closed, so the daemon ends
        loop.add_signal_handler(signal.SIGHUP, read_all_again)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_stdin, loop, stop)
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        on_stop()
        stopped.cancel()
        working.cancel()
        await asyncio.wait([working])
    if not working.cancelled():
        working.result()


def _stop_at_end_of_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()
