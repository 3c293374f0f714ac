"""A writer's connection to one acceptor: performs the effects of its channel. Each call returns a future; reads bypass
the queue."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ledgers.tasks import Tasks

from ..config import JournalConfig
from ..errors import JournalError, JournalUnavailable
from ..quantiles import Latencies, percentiles
from ..requests import Acceptor, GetEditLogManifest, GetJournaledEdits, GetStorageInfo, R, Request, SendEdits
from .channel import Channel, ChannelEffect, Fail, SendCall


class LoggerMetrics:
    """Metrics of one acceptor. `CurrentLagTxns` and `LagTimeMillis` measure its lag behind a quorum."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._in_sync_at = time.monotonic()
        self._rpc = Latencies()
        self._end_to_end = Latencies()

    def wrote(self, end_to_end_seconds: float, rpc_seconds: float) -> None:
        """Counts an acknowledged batch, and records the seconds since it was queued and since it was sent."""
        now = time.monotonic()
        self._end_to_end.add(end_to_end_seconds, now)
        self._rpc.add(rpc_seconds, now)
        self._note_lag(now)

    def committed(self) -> None:
        """Updates the lag after a quorum has committed further edits."""
        self._note_lag(time.monotonic())

    def _note_lag(self, now: float) -> None:
        if self.current_lag_txns == 0:
            self._in_sync_at = now

    @property
    def current_lag_txns(self) -> int:
        return max((self._channel.committed_txid or 0) - self._channel.highest_acked_txid, 0)

    @property
    def lag_time_millis(self) -> int:
        return round((time.monotonic() - self._in_sync_at) * 1000) if self.current_lag_txns else 0

    def snapshot(self) -> dict[str, int | float | str]:
        """Returns all metrics under Hadoop's names; latencies are in microseconds."""
        values: dict[str, int | float | str] = {
            "IsOutOfSync": str(self._channel.is_out_of_sync).lower(),
            "CurrentLagTxns": self.current_lag_txns,
            "LagTimeMillis": self.lag_time_millis,
            "QueuedEditsSize": self._channel.queued_bytes,
            "QueuedCalls": self._channel.queued_calls,
        }
        return values | percentiles("WritesE2E", self._end_to_end) | percentiles("WritesRpc", self._rpc)


log = logging.getLogger(__name__)

SLOW_CALL_SECONDS = 1.0
"""Calls that take longer than this are logged."""

PARALLEL_READS_MAX = 5
"""Maximum number of reads in flight at one acceptor, in addition to the calls that change the journal."""

READS_WAITING_MAX = 100
"""Maximum number of reads in flight or queued at one acceptor, so that reads do not pile up if the acceptor hangs."""

READS = frozenset({GetEditLogManifest, GetJournaledEdits, GetStorageInfo})


class Logger:
    """The calls of one writer to one acceptor, like Hadoop's AsyncLogger. Belongs to the writer's event loop."""

    def __init__(self, acceptor: Acceptor, config: JournalConfig) -> None:
        self.acceptor = acceptor
        self.channel = Channel(acceptor.name, config)
        self.metrics = LoggerMetrics(self.channel)
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._submitted: dict[int, float] = {}
        self._reads = asyncio.Semaphore(PARALLEL_READS_MAX)
        self._reads_waiting = 0
        self._tasks = Tasks(_broken)
        self._is_closed = False

    @property
    def name(self) -> str:
        return self.acceptor.name

    def call(self, request: Request[R]) -> asyncio.Future[R]:
        """Makes a call; calls that change the journal run in order. The future completes with the answer or fails with
        a JournalError."""
        answer: asyncio.Future[R] = self._loop.create_future()
        answer.add_done_callback(_retrieved)
        if self._is_closed:
            answer.set_exception(JournalUnavailable(f"the channel to {self.name} was closed"))
        elif type(request) in READS:
            self._start_read(request, answer)
        else:
            self._submit(request, answer)
        return answer

    async def close(self) -> None:
        """Cancels calls in flight; whether they took effect is unknown."""
        self._is_closed = True
        await self._tasks.close()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(JournalUnavailable(f"the channel to {self.name} was closed"))
        self._answers.clear()

    def report(self) -> str:
        """Returns a one-line status report for operators, in Hadoop's wording."""
        written = self.channel.highest_acked_txid
        lag = self.metrics.current_lag_txns
        behind = f" ({lag} txns/{self.metrics.lag_time_millis}ms behind)" if lag else ""
        never = "" if written else " (never written)"
        rejoin = " (will try to re-sync on next segment)" if self.channel.is_out_of_sync else ""
        return f"{self.name} (Written txid {written}{behind}{never}{rejoin})"

    def _submit(self, request: Request[R], answer: asyncio.Future[R]) -> None:
        now = self._loop.time()
        call, effects = self.channel.submit(request, now)
        self._answers[call] = answer
        self._submitted[call] = now
        self._perform(effects)

    def _perform(self, effects: list[ChannelEffect]) -> None:
        if self._is_closed:
            return  # a call that ends after `close` must not start queued calls
        for effect in effects:
            match effect:
                case SendCall(call, SendEdits() as request) if self._begin(call, request):
                    pass
                case SendCall(call, request):
                    self._tasks.start(self._make(call, request))
                case Fail(call, error):
                    self._end(call, lambda answer, error=error: answer.set_exception(error))  # type: ignore[misc]

    async def _make(self, call: int, request: Request[Any]) -> None:
        sent = self._loop.time()
        try:
            reply = await self.acceptor.call(request)
        except Exception as error:
            self._failed(call, error)
        else:
            self._answered(call, request, sent, reply)

    def _begin(self, call: int, request: SendEdits) -> bool:
        """Hands a batch to the acceptor without creating a task, and returns whether the acceptor accepted the batch at
        once. If so, the batch is already in the ledger's queue."""
        return self.acceptor.begin(request, partial(self._batch_over, call, request, self._loop.time()))

    def _batch_over(self, call: int, request: SendEdits, sent: float, error: Exception | None) -> None:
        if self._is_closed:
            return  # the call's future has already failed
        if error is None:
            self._answered(call, request, sent, None)
        else:
            self._failed(call, error)

    def _answered(self, call: int, request: Request[Any], sent: float, reply: object) -> None:
        now = self._loop.time()
        effects = self.channel.answered(call, now)
        self._note_latency(call, request, sent, now)
        self._end(call, lambda answer: answer.set_result(reply))
        self._perform(effects)

    def _failed(self, call: int, error: Exception) -> None:
        self._end(call, lambda answer: answer.set_exception(error))
        self._perform(self.channel.failed(call, self._loop.time()))
        _raise_defect(error)

    def _note_latency(self, call: int, request: Request[Any], sent: float, now: float) -> None:
        if isinstance(request, SendEdits):
            self.metrics.wrote(now - self._submitted.get(call, sent), now - sent)
        if now - sent > SLOW_CALL_SECONDS:
            log.warning("%s took %.1f s at %s", type(request).__name__, now - sent, self.name)

    def _end(self, call: int, how: Callable[[asyncio.Future[Any]], None]) -> None:
        self._submitted.pop(call, None)
        answer = self._answers.pop(call, None)  # a heartbeat has no future
        if answer is not None and not answer.done():
            how(answer)

    def _start_read(self, request: Request[R], answer: asyncio.Future[R]) -> None:
        if self._reads_waiting >= READS_WAITING_MAX:
            answer.set_exception(
                JournalUnavailable(f"{self.name} has not answered any of {READS_WAITING_MAX} reads")
            )
            return
        self._reads_waiting += 1
        self._tasks.start(self._read(request, answer))

    async def _read(self, request: Request[R], answer: asyncio.Future[R]) -> None:
        """Makes a read call, and cancels the call if its future is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        answer.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)
        try:
            async with self._reads:
                reply = await self.acceptor.call(request)
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
            _raise_defect(error)
        else:
            if not answer.done():
                answer.set_result(reply)
        finally:
            self._reads_waiting -= 1


def _retrieved(answer: asyncio.Future[Any]) -> None:
    """Marks the answer's error, if any, as retrieved, so that asyncio does not report it as unhandled: the answer may
    arrive after a quorum was found without it."""
    if not answer.cancelled():
        answer.exception()


def _raise_defect(error: Exception) -> None:
    """Re-raises any error that is not a JournalError, so that it is logged with its traceback."""
    if not isinstance(error, JournalError):
        raise error


def _broken(error: BaseException) -> None:
    log.error("a call to an acceptor failed unexpectedly", exc_info=error)
