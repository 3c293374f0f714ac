"""Dispatches RPCs: decodes a call, runs it at the acceptor, and encodes the reply."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf.message import Message

from ...errors import JournalError
from ...requests import Request, SendEdits
from ..errors import BadRpcFrame
from ..wire.hadoop_rpc import Call, Caller, failure, method_of, success
from ..wire.methods import NOTHING, Method, NodeAddress, method_named
from ..wire.qjournal_messages import journal_id_of
from .node import JournalNode

INTERVAL_SECONDS = 10.0
"""The interval over which call times are averaged: Hadoop's own default (`*.period` of hadoop-metrics2.properties)."""


class MeanTime:
    """Averages durations over intervals. `now` is the caller's clock."""

    def __init__(self) -> None:
        self._began = 0.0
        self._count = 0
        self._seconds = 0.0
        self._last_millis = 0.0

    def add(self, seconds: float, now: float) -> None:
        self._turn(now)
        if not self._count:
            self._began = now
        self._count += 1
        self._seconds += seconds

    def millis(self, now: float) -> float:
        """Returns the mean over the last complete interval that had calls or, during the first interval, over the calls
        so far."""
        self._turn(now)
        return self._last_millis or self._mean_millis()

    def _turn(self, now: float) -> None:
        if self._count and now - self._began >= INTERVAL_SECONDS:
            self._last_millis = self._mean_millis()
            self._count, self._seconds = 0, 0.0

    def _mean_millis(self) -> float:
        return 1000 * self._seconds / self._count if self._count else 0.0


class CallTimes:
    """Durations of a node's calls. `queued`: from a call's arrival until its start; `processed`: from its start until
    its answer."""

    def __init__(self) -> None:
        self.queued = MeanTime()
        self.processed = MeanTime()
        self.by_method: dict[str, MeanTime] = defaultdict(MeanTime)

    def answered(self, method: str, seconds: float, now: float) -> None:
        self.processed.add(seconds, now)
        self.by_method[method].add(seconds, now)


REMEMBERED_MAX = 1024
"""Maximum number of calls whose replies are kept, for all clients in total. Each of these replies is a few dozen bytes
long."""

Reply = Callable[[bytes], None]


class Retries:
    """Replies to earlier calls, keyed by client and call id, for clients that retry."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[bytes, int], bytes | list[Reply]] = OrderedDict()

    def is_answered(self, caller: Caller, reply: Reply) -> bool:
        """Returns whether the call is a retry of a remembered call. If so, `reply` is called now, or when the first
        call is answered."""
        if caller.retry_count <= 0:
            return False
        found = self._answers.get((caller.client_id, caller.call_id))
        if found is None:
            return False
        if isinstance(found, bytes):
            reply(found)
        else:
            found.append(reply)
        return True

    def remembering(self, caller: Caller, reply: Reply) -> Reply:
        """Wraps `reply` for a call that is about to start, so that retries of the call get the same answer."""
        key = (caller.client_id, caller.call_id)
        waiting: list[Reply] = [reply]
        self._answers.pop(key, None)
        self._answers[key] = waiting
        if len(self._answers) > REMEMBERED_MAX:
            self._answers.popitem(last=False)

        def answer(frame: bytes) -> None:
            if self._answers.get(key) is waiting:
                self._answers[key] = frame
            for one in waiting:
                one(frame)

        return answer


log = logging.getLogger(__name__)


class CallDispatcher:
    """Runs the calls of one JournalNode. `counts` counts them by method, and `times` measures them. Belongs to the
    node's event loop."""

    def __init__(self, node: JournalNode, place: NodeAddress) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.times = CallTimes()
        self._node = node
        self._place = place
        self._retries = Retries()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, call: Call, reply: Reply, queued_seconds: float = 0.0) -> None:
        """Answers a call, now or later, through `reply`. Raises BadRpcFrame if the frame is not a call."""
        caller = call.caller
        try:
            protocol, name, data = method_of(call)
            method = method_named(protocol, name)
            self.counts[name] += 1
            began = time.monotonic()
            self.times.queued.add(queued_seconds, began)
            reply = partial(self._timed, reply, name, began)
            if method.changes:
                if self._retries.is_answered(caller, reply):
                    return
                reply = self._retries.remembering(caller, reply)
            self._begin(method, method.parse(data), caller, reply)
        except BadRpcFrame:
            raise
        except JournalError as error:
            reply(self._failure(caller, error))

    def _timed(self, reply: Reply, name: str, began: float, frame: bytes) -> None:
        now = time.monotonic()
        self.times.answered(name, now - began, now)
        reply(frame)

    async def close(self) -> None:
        """Cancels calls in progress."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, method: Method, message: Any, caller: Caller, reply: Reply) -> None:
        journal_id = journal_id_of(message)
        request = method.request_of(message, caller.client_id)
        if isinstance(request, SendEdits):
            done = partial(self._batch_over, caller, reply)
            if self._node.journal(journal_id).begin(request, done):
                return
        task = asyncio.create_task(self._answer(method, journal_id, request, caller, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _batch_over(self, caller: Caller, reply: Reply, error: Exception | None) -> None:
        reply(success(caller, NOTHING) if error is None else self._failure(caller, error))

    async def _answer(
        self, method: Method, journal_id: str, request: Request[Any], caller: Caller, reply: Reply
    ) -> None:
        try:
            answer = await self._node.call(journal_id, request)
            message: Message = method.reply_to(answer, self._place)
            frame = success(caller, message)
        except JournalError as error:
            frame = self._failure(caller, error)
        except Exception as error:  # a bug must not leave a NameNode without an answer
            log.exception("%s of journal %s failed unexpectedly", type(request).__name__, journal_id)
            frame = self._failure(caller, error)
        reply(frame)

    def _failure(self, caller: Caller, error: Exception) -> bytes:
        self.failures[getattr(error, "java_class", "java.io.IOException")] += 1
        log.info("refused: %s", error)
        return failure(caller, error)
