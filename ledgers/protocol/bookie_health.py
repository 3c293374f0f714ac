"""Tracks which bookies to avoid: those that failed or were slow recently, and those that fail repeatedly. Pure."""

from __future__ import annotations

from typing import Protocol

from metadata.records.ledger_record import BookieRef

EPISODE_SECONDS = 1.0
"""Failures closer together than this count as one, because every ledger notices the same broken connection."""

QUARANTINE_FAILURES, QUARANTINE_WINDOW_SECONDS = 3, 300.0
"""A bookie with this number of failures within this window of seconds is quarantined. A restart counts as one failure,
whereas a flapping host causes many."""


class HealthConfig(Protocol):
    """The settings of `ClientConfig` that are needed here. ClientConfig itself can read a file, which pure machines
    must not do."""

    @property
    def failed_bookie_seconds(self) -> float: ...

    @property
    def quarantine_seconds(self) -> float: ...


class BookieFailureHistory:
    """A client's memory of bookie failures. An avoided bookie is used only if no other is available.

    One failure counts against a bookie for `failed_bookie_seconds`; QUARANTINE_FAILURES failures within
    QUARANTINE_WINDOW_SECONDS count for `quarantine_seconds`.
    """

    def __init__(self, config: HealthConfig) -> None:
        self._config = config
        self._failures: dict[BookieRef, list[float]] = {}
        self._quarantined_until: dict[BookieRef, float] = {}
        self._slow_at: dict[BookieRef, float] = {}

    def failed(self, bookie: BookieRef, now: float) -> None:
        """Records that a call or a stream to the bookie failed at this time."""
        oldest = now - QUARANTINE_WINDOW_SECONDS
        failures = [at for at in self._failures.get(bookie, []) if at > oldest]
        if failures and now - failures[-1] < EPISODE_SECONDS:
            failures[-1] = now
        else:
            failures.append(now)
        self._failures[bookie] = failures[-QUARANTINE_FAILURES:]
        if len(failures) >= QUARANTINE_FAILURES:
            self._quarantined_until[bookie] = now + self._config.quarantine_seconds

    def was_slow(self, bookie: BookieRef, now: float) -> None:
        """Records that a reader stopped waiting for the bookie; only readers avoid a bookie for being slow."""
        self._slow_at[bookie] = now

    def avoided_by_readers(self, now: float) -> frozenset[BookieRef]:
        """Returns the bookies that readers ask last at this time, including those that were slow within
        `failed_bookie_seconds`."""
        oldest = now - self._config.failed_bookie_seconds
        self._slow_at = {bookie: at for bookie, at in self._slow_at.items() if at > oldest}
        return self.avoided(now) | frozenset(self._slow_at)  # a union with keys() would be a plain set

    def avoided(self, now: float) -> frozenset[BookieRef]:
        """Returns the bookies to avoid at this time; forgets older failures."""
        oldest = now - max(QUARANTINE_WINDOW_SECONDS, self._config.failed_bookie_seconds)
        self._failures = {b: at for b, at in self._failures.items() if at[-1] > oldest}
        self._quarantined_until = {b: end for b, end in self._quarantined_until.items() if end > now}
        lately = {b for b, at in self._failures.items() if at[-1] > now - self._config.failed_bookie_seconds}
        return frozenset(lately | self._quarantined_until.keys())
