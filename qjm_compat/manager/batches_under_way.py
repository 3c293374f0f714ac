"""Tracks batches in flight to all acceptors: counts their acks, and times them out with one shared timer.

If this process is suspended while batches are in flight, no acceptor is blamed: the pause extends every deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ..errors import JournalError
from ..requests import SendEdits
from .proposer_effects import Acceptors, Need
from .quorum_call import PAUSE_SHARE_MIN, STEP_SECONDS_MAX, WARN_AT, collected

log = logging.getLogger(__name__)

STEP_SECONDS_MIN = 0.01
"""The shortest time between two checks: a timer may fire slightly early, and must not be rescheduled with no delay."""


@dataclass(slots=True, eq=False)
class _InFlightBatch:
    request: SendEdits
    calls: Sequence[asyncio.Future[None]]
    sent_at: float
    settled: asyncio.Future[int]
    stored: int = 0
    failed: int = 0
    warned: int = 0

    @property
    def what(self) -> str:
        return f"journal({self.request.first_txid}-{self.request.last_txid})"


class BatchesUnderWay:
    """The batches of one writer. `on_committed` receives the last txid of each batch that a majority has on disk."""

    def __init__(self, acceptors: Acceptors, seconds_max: float, on_committed: Callable[[int], None]) -> None:
        self._acceptors = acceptors
        self._quorum = acceptors.majority
        self._seconds_max = seconds_max
        self._on_committed = on_committed
        self._loop = asyncio.get_running_loop()
        self._batches: deque[_InFlightBatch] = deque()
        self._clock: asyncio.TimerHandle | None = None
        self._due = 0.0

    def add(self, request: SendEdits, calls: Sequence[asyncio.Future[None]]) -> asyncio.Future[int]:
        """Returns a future that completes with the last txid once a majority has the batch on disk, or fails with
        QuorumFailed or QuorumTimeout."""
        batch = _InFlightBatch(request, calls, self._loop.time(), self._loop.create_future())
        self._forget_settled()
        self._batches.append(batch)
        for call in calls:
            call.add_done_callback(partial(self._heard, batch))
        if self._clock is None:
            self._look_later()
        return batch.settled

    def close(self) -> None:
        """Stops the timer, so batches in flight no longer time out. Each ends when the acceptors have answered."""
        if self._clock is not None:
            self._clock.cancel()

    def _heard(self, batch: _InFlightBatch, call: asyncio.Future[None]) -> None:
        is_stored = not call.cancelled() and call.exception() is None
        batch.stored += is_stored
        batch.failed += not is_stored
        if batch.settled.done():
            return
        if batch.stored >= self._quorum.needed:
            self._on_committed(batch.request.last_txid)
            batch.settled.set_result(batch.request.last_txid)
        elif len(batch.calls) - batch.failed < self._quorum.needed:
            self._fail(batch)

    def _fail(self, batch: _InFlightBatch) -> None:
        try:
            self._acceptors.check(batch.what, collected(batch.calls), Need.MAJORITY, self._seconds_max)
        except JournalError as error:
            batch.settled.set_exception(error)

    def _forget_settled(self) -> None:
        while self._batches and self._batches[0].settled.done():
            self._batches.popleft()

    # --- the clock ----------------------------------------------------------------------------

    def _look_later(self) -> None:
        now = self._loop.time()
        due = min(now + STEP_SECONDS_MAX, self._batches[0].sent_at + self._seconds_max)
        self._due = max(due, now + STEP_SECONDS_MIN)
        self._clock = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self._clock = None
        self._forgive_pause(self._loop.time() - self._due)
        for batch in self._batches:
            if not batch.settled.done() and not self._is_in_time(batch):
                self._fail(batch)
        self._forget_settled()
        if self._batches:
            self._look_later()

    def _forgive_pause(self, late: float) -> None:
        if late > PAUSE_SHARE_MIN * self._seconds_max:
            log.warning(
                "this process was suspended for %.1f s; waiting that much longer for batches in flight", late
            )
            for batch in self._batches:
                batch.sent_at += late

    def _is_in_time(self, batch: _InFlightBatch) -> bool:
        waited = self._loop.time() - batch.sent_at
        if batch.warned < len(WARN_AT) and waited >= WARN_AT[batch.warned] * self._seconds_max:
            batch.warned += 1
            log.warning("waited %.1f of %.1f s for a quorum: %s", waited, self._seconds_max, batch.what)
        return waited < self._seconds_max
