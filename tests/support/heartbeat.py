"""Every half minute a long run says what it is doing, in lines of their own."""

from __future__ import annotations

import os
import threading
import time

BEAT_SECONDS = 30.0
NAMES_SHOWN_MAX = 4


class Heartbeat:
    """For the process that tells the user of the run. `running` are the tests that have begun, and when."""

    def __init__(self, beat_seconds: float = BEAT_SECONDS) -> None:
        self._out = os.fdopen(os.dup(2), "w")  # past what captures the output of tests
        self._beat_seconds = beat_seconds
        self._running: dict[str, float] = {}
        self._done = 0
        self._over = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def pytest_sessionstart(self) -> None:
        self._beating.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._done += 1

    def pytest_sessionfinish(self) -> None:
        self._over.set()
        self._beating.join()
        self._out.close()

    def _beat(self) -> None:
        while not self._over.wait(self._beat_seconds):
            print(f"\n{self.told()}", file=self._out, flush=True)

    def told(self) -> str:
        """So many tests are done, and those that run now, the oldest first."""
        running = sorted(self._running.items(), key=lambda item: item[1])[:NAMES_SHOWN_MAX]
        now = time.monotonic()
        names = ", ".join(f"{name.rpartition('/')[2]} ({now - began:.0f} s)" for name, began in running)
        return f"   {self._done} tests done; now: {names or 'none'}"
