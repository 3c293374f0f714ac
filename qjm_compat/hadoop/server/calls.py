"""Dispatches RPCs: decodes a call, runs it at the acceptor, encodes the reply."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from functools import partial
from typing import Any

from google.protobuf.message import Message

from ...errors import JournalError
from ...requests import Request, SendEdits
from ..errors import BadFrame
from ..wire.messages import journal_id_of
from ..wire.methods import NOTHING, Method, Place, method_named
from ..wire.rpc import Call, Caller, failure, method_of, success
from .call_times import CallTimes
from .node import JournalNode
from .retries import Reply, Retries

log = logging.getLogger(__name__)


class Calls:
    """The calls of one JournalNode. `counts` counts them by method, `times` measures them. Belongs to the node's event
    loop."""

    def __init__(self, node: JournalNode, place: Place) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.times = CallTimes()
        self._node = node
        self._place = place
        self._retries = Retries()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, call: Call, reply: Reply, queued_seconds: float = 0.0) -> None:
        """Answers a call, now or later, through `reply`. Raises BadFrame if it is not a call."""
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
        except BadFrame:
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
