"""Notifies systemd: ready, watchdog, stopping.

The watchdog is fed while the event loop runs and, in a bookie, while the log makes progress, because no client can
append while the disk hangs.

systemd passes the path of a datagram socket in NOTIFY_SOCKET, and the watchdog's period in WATCHDOG_USEC
(sd_notify(3)). Without these, nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

SOCKET, WATCHDOG, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"

READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"

NOTIFICATIONS_PER_PERIOD = 3
"""The number of notifications per watchdog period; there are several so that a late one does no harm."""

log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Notifies the service manager, if there is one. Never fails: the daemon continues without it."""
    address = os.environ.get(SOCKET, "")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.setblocking(False)  # a missing listener must not stop the daemon
            sock.sendto(state.encode(), address)
    except OSError as error:
        log.warning(
            "cannot notify the service manager at %s of state %s: %s", os.environ[SOCKET], state, error
        )


@asynccontextmanager
async def feed_watchdog(stuck_seconds: Callable[[], float] = lambda: 0.0) -> AsyncIterator[None]:
    """Feeds the watchdog from the event loop inside the block, if systemd requests that.

    `stuck_seconds` returns how long the log has made no progress; if that exceeds the watchdog's period, the
    watchdog is not fed.
    """
    seconds = _period_seconds()
    beating = asyncio.create_task(_beat(seconds, stuck_seconds)) if seconds else None
    try:
        yield
    finally:
        if beating is not None:
            beating.cancel()
            await asyncio.wait([beating])


async def _beat(seconds: float, stuck_seconds: Callable[[], float]) -> None:
    is_logged = False
    while True:
        stuck = stuck_seconds()
        if stuck < seconds * NOTIFICATIONS_PER_PERIOD:
            notify(ALIVE)
            is_logged = False
        elif not is_logged:
            log.error(
                "no progress for %.0f s, so the service manager is not notified: check the disk",
                stuck,
            )
            is_logged = True
        await asyncio.sleep(seconds)


def _period_seconds() -> float:
    """Returns the seconds between two notifications; 0 if this process need not send any."""
    wanted = os.environ.get(WATCHDOG, "")
    of_another = os.environ.get(WATCHDOG_PID, str(os.getpid())) != str(os.getpid())
    if not wanted.isdecimal() or of_another:
        return 0.0
    return int(wanted) / 1e6 / NOTIFICATIONS_PER_PERIOD
