"""The time that a writer gives its records: its own machine's time or, if that differs too much from the bookies' time,
the bookies' time."""

from __future__ import annotations

import logging
import time

from metadata.errors import MetadataError
from metadata.leases import lease_clock
from metadata.records import directory_generations

from ...cluster import Cluster
from ...record_change import metadata_errors

log = logging.getLogger(__name__)

BOUND_US = 300_000_000
"""Maximum accepted difference between a machine's clock and the bookies' time, which itself lags by a fraction of the
duration of the bookies' leases."""

ASK_SECONDS_MIN = 60.0
"""Minimum interval at which one writer reads the bookies' time."""


class RecordClock:
    """The clock of one writer. Computes the bookies' time from their last answer and the time elapsed since then; until
    there is an answer, uses the machine's clock."""

    def __init__(self, cluster: Cluster, log_name: str) -> None:
        self._cluster = cluster
        self._log_name = log_name
        self._behind_bookies_us: int | None = None  # the bookies' time minus that of the monotonic clock
        self._asked_at = -ASK_SECONDS_MIN

    async def ask(self) -> None:
        """Reads the bookies' time, and logs a warning if the machine's clock differs too much. Raises
        MetadataUnavailable."""
        with metadata_errors():
            await self._ask()

    async def ask_again(self) -> None:
        """Reads the bookies' time again, at most once a minute. Keeps the previous answer if there is no new one."""
        if lease_clock.now() - self._asked_at >= ASK_SECONDS_MIN:
            try:
                await self._ask()
            except MetadataError as error:
                log.info("log %r: the bookies' time could not be read: %s", self._log_name, error)

    async def _ask(self) -> None:
        self._asked_at = lease_clock.now()
        bookies_us = await directory_generations.time_ms(self._cluster.store) * 1000
        if not bookies_us:
            return
        self._behind_bookies_us = bookies_us - _monotonic_us()
        self._report_skew(time.time_ns() // 1000 - bookies_us)

    def _report_skew(self, ahead_us: int) -> None:
        if (metrics := self._cluster.log_metrics) is not None:
            metrics.clock_ahead_seconds.set(ahead_us / 1_000_000)
        if abs(ahead_us) > BOUND_US:
            line = (
                "this machine's clock is %.0f s %s the clocks of half of the bookies: records of log %r get the "
                "bookies' time; set the clock (`timedatectl set-ntp true`)"
            )
            which = "ahead of" if ahead_us > 0 else "behind"
            log.warning(line, abs(ahead_us) / 1_000_000, which, self._log_name)

    def now_us(self) -> int:
        """Returns the time to give a record that is appended now."""
        machine_us = time.time_ns() // 1000
        if self._behind_bookies_us is None:
            return machine_us
        bookies_us = self._behind_bookies_us + _monotonic_us()
        return machine_us if abs(machine_us - bookies_us) <= BOUND_US else bookies_us

    def begin_us(self, last_us: int) -> int:
        """Returns the start time of a segment that follows a record with the time `last_us`: not earlier than that
        record, unless the record's time is so far in the future that it must be wrong."""
        now_us = self.now_us()
        is_false = self._behind_bookies_us is not None and last_us > now_us + BOUND_US
        return now_us if is_false else max(now_us, last_us)


def _monotonic_us() -> int:
    return round(lease_clock.now() * 1_000_000)
