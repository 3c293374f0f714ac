"""Bounds the share of a daemon's event loop that its HTTP port uses, so that HTTP requests do not delay appends.

The processor time that a response takes on the loop is measured step by step, and charged to a budget that refills over
time; time taken by other processes of a busy machine is not charged. Requests begin in order of arrival, as soon as the
budget allows; a request that would wait too long gets 503. Probes have a separate budget, so that a flood of other
requests cannot make a daemon look dead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bookie.serving.limits.admission import Rate

from .problems import Problem

PROBES = frozenset({"/healthz", "/readyz"})
PROBES_SHARE = 0.2
"""The share of the whole budget that is reserved for probes."""

UNLIMITED = frozenset({"/getJournal"})
"""Paths that daemons need for their work; they have separate limits."""

WAIT_SECONDS_MAX = 5.0
"""How long a request may wait to begin. Requests wait only on open connections, the number of which is limited by
`connections_max`."""

REQUEST_SECONDS = 0.0005
"""The processor time of receiving, parsing and sending, in addition to that of the response itself."""

ANSWER_SECONDS = 0.005
"""Expected processor time of a response on a path for which none has been measured yet."""

NEWEST_WEIGHT = 0.2
"""Weight of a path's latest response in the estimate of the processor time of its next response."""

BUSY = (
    f"other requests took so much time that this one could not begin within {WAIT_SECONDS_MAX:g} s: "
    "send fewer requests, retry later, or raise `loop_share`"
)


class LoopShare:
    """The budgets of one port. Belongs to the port's event loop. `share`: a fraction of the loop's time, at most 1."""

    def __init__(self, share: float) -> None:
        now = asyncio.get_running_loop().time
        self._probes = _Budget(share * PROBES_SHARE, now)
        self._others = _Budget(share * (1 - PROBES_SHARE), now)
        self._expected: dict[str, float] = {}

    def middleware(self) -> Middleware:
        @web.middleware
        async def paid(request: web.Request, handler: Handler) -> web.StreamResponse:
            resource = request.match_info.route.resource
            path = "" if resource is None else resource.canonical
            if path in UNLIMITED:
                return await handler(request)
            budget = self._probes if path in PROBES else self._others
            expected = self._expected.get(path, ANSWER_SECONDS)
            await budget.begin(expected)
            answering = _Timed(handler(request))
            try:
                return await answering
            finally:
                took = answering.seconds + REQUEST_SECONDS
                budget.rate.spend(took - expected)
                self._expected[path] = expected + NEWEST_WEIGHT * (took - expected)

        return paid


class _Budget:
    """A budget of loop time that refills over time, and the requests that wait for it."""

    def __init__(self, share: float, now: Callable[[], float]) -> None:
        self.rate = Rate(share, now)
        self._first = asyncio.Lock()

    async def begin(self, seconds: float) -> None:
        """Waits for the caller's turn, and charges `seconds` to the budget in advance. Raises Problem if the wait is
        too long."""
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX), self._first:
                wait = self.rate.spend(0.0)
                # A loop, because responses that end during the wait may have cost more than was charged in advance.
                while wait > 0:
                    await asyncio.sleep(wait)
                    wait = self.rate.spend(0.0)
                self.rate.spend(seconds)
        except TimeoutError:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, BUSY) from None


class _Timed(Awaitable[web.StreamResponse]):
    """A response in progress, and the seconds of processor time that its steps took on the loop."""

    def __init__(self, answer: Awaitable[web.StreamResponse]) -> None:
        self._answer = answer
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, web.StreamResponse]:
        steps: Any = self._answer.__await__()
        step: Callable[[], Any] = partial(next, steps)
        while True:
            began = time.thread_time()
            try:
                waits_for = step()
            except StopIteration as end:
                answer: web.StreamResponse = end.value
                return answer
            finally:
                self.seconds += time.thread_time() - began
            try:
                step = partial(steps.send, (yield waits_for))
            except BaseException as error:  # any error, such as a cancellation, is left to the response
                step = partial(steps.throw, error)
